// Matrix products: our own kernels or oneDNN primitives made once, executed by the workers of the pool on tiles of the
// output.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/host/OneDnn.h"
#include "runtime/Device/host/ThreadPool.h"
#include "runtime/Format/plan.pb.h"
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ztc {

/// C = alpha * op(A) op(B) (+ C where `add`), row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n). `lda` is the
/// distance of rows of A as it is stored, in elements, and so on.
struct MatmulProblem {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t lda = 0, ldb = 0, ldc = 0;
  bool transposeA = false, transposeB = false;
  bool add = false;
  float alpha = 1;
  plan::DataType typeA = plan::F32, typeB = plan::F32, typeC = plan::F32;
  auto operator<=>(const MatmulProblem &) const = default;
};

/// One matrix product in one thread. Owned by the MatmulCache.
class Matmul {
public:
  Matmul(const Matmul &) = delete;
  ~Matmul();
  /// Runs in the calling thread, as `worker`, whose memory objects and scratchpad it uses. False: oneDNN reported an
  /// error.
  bool execute(uint32_t worker, const void *a, const void *b, void *c) const;
  /// "own", or the implementation that oneDNN chose, e.g. "gemm:jit".
  const std::string &implementation() const { return implementation_; }

private:
  friend class MatmulCache;
  struct PerWorker {
    dnnl_memory_t a = nullptr, b = nullptr, c = nullptr, scratchpad = nullptr;
  };
  Matmul(const OneDnn &library, const class MatmulCache &cache) : library_(library), cache_(cache) {}
  Status create(const MatmulProblem &problem, uint32_t workers);

  const OneDnn &library_;
  const class MatmulCache &cache_;
  MatmulProblem problem_;
  bool isOwn_ = false;
  dnnl_primitive_t primitive_ = nullptr;
  uint64_t scratchpadBytes_ = 0;
  std::vector<PerWorker> workers_;
  std::string implementation_;
};

/// All primitives of a device, by problem: equal layers share them. What execution needs (streams, memory objects,
/// scratchpads) exists once per worker, so that executing allocates nothing of ours.
class MatmulCache {
public:
  MatmulCache(const OneDnn &library, uint32_t workers);
  ~MatmulCache();
  /// Makes the primitive on first sight. Only while no product is running. The pointer lives as long as the cache.
  StatusOr<const Matmul *> get(const MatmulProblem &problem);
  const OneDnn &library() const { return library_; }
  uint32_t workers() const { return uint32_t(streams_.size()); }
  uint64_t scratchpadBytes() const { return scratchpadBytes_ * workers(); }

private:
  friend class Matmul;
  struct FreeDeleter {
    void operator()(void *p) const;
  };
  const OneDnn &library_;
  std::vector<dnnl_stream_t> streams_;                               ///< by worker
  std::vector<std::unique_ptr<std::byte, FreeDeleter>> scratchpads_; ///< by worker, of scratchpadBytes_ each
  uint64_t scratchpadBytes_ = 0;                                     ///< the largest any primitive wants
  std::map<MatmulProblem, std::unique_ptr<Matmul>> primitives_;
};

/// A product (or a batch of equal ones) cut into tiles of the output, never along k. Workers take the next tile when
/// they are done with one. How it is cut depends on the problem and on the class of T (1 and 2; 3 to 8; 9 to 32; ...):
/// within a class the bits are the same; with our own kernels they are for any T.
class ParallelMatmul {
public:
  struct Batch {
    uint64_t count = 1;
    uint64_t strideA = 0, strideB = 0, strideC = 0; ///< in elements
  };
  static StatusOr<ParallelMatmul> prepare(MatmulCache &cache, const MatmulProblem &problem, Batch batch);
  static StatusOr<ParallelMatmul> prepare(MatmulCache &cache, const MatmulProblem &problem) {
    return prepare(cache, problem, Batch());
  }
  Status execute(ThreadPool &pool, const void *a, const void *b, void *c) const;

private:
  struct Tile {
    const Matmul *matmul;
    uint64_t a, b, c; ///< offsets in bytes
  };
  std::vector<Tile> tiles_;
  bool parallel_ = false; ///< worth waking the other workers
};

} // namespace ztc
