// Matrix products: our own kernels or oneDNN primitives made once, executed by the workers of the pool on tiles of the
// output.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/host/MatmulProblem.h"
#include "runtime/Device/host/OneDnn.h"
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Device/host/ThreadPool.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

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
  std::optional<SgemmPlan> own_; ///< by our own kernels
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
  /// Makes room for a block that our own kernels have packed for all workers, and for what each wants beside it.
  Status reserve(const SgemmPlan &plan);
  const OneDnn &library() const { return library_; }
  uint32_t workers() const { return uint32_t(streams_.size()); }
  uint64_t scratchpadBytes() const { return scratchpadBytes_ * workers() + packedBytes_; }
  std::byte *scratchpad(uint32_t worker) const { return scratchpads_[worker].get(); }
  std::byte *packed() const { return packed_.get(); }

private:
  friend class Matmul;
  struct FreeDeleter {
    void operator()(void *p) const;
  };
  using Scratch = std::unique_ptr<std::byte, FreeDeleter>;
  static Status grow(Scratch &scratch, uint64_t bytes);
  Status growScratchpads(uint64_t bytes);

  const OneDnn &library_;
  std::vector<dnnl_stream_t> streams_; ///< by worker
  std::vector<Scratch> scratchpads_;   ///< by worker, of scratchpadBytes_ each
  uint64_t scratchpadBytes_ = 0;       ///< the largest any primitive wants
  Scratch packed_;                     ///< of packedBytes_, for all workers
  uint64_t packedBytes_ = 0;
  std::map<MatmulProblem, std::unique_ptr<Matmul>> primitives_;
};

/// A product (or a batch of equal ones) cut into pieces of the output, never along k. By our own kernels they first
/// pack B together, where it is one block, then each multiplies rows by it; their bits are the same for any T. Other
/// products are cut into tiles, which depend on the problem and on the class of T (1 and 2; 3 to 8; 9 to 32; ...):
/// within a class the library's bits are the same.
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
  /// A product by our own kernels, whose B is one block. Its rows are cut as workers come; where columns are cut too,
  /// into `rows` x `columns` pieces.
  struct Own {
    SgemmPlan plan;
    uint32_t rows = 1, columns = 1;
  };
  Status prepareOwn(MatmulCache &cache, const MatmulProblem &problem);
  void executeOwn(ThreadPool &pool, const float *a, const float *b, float *c) const;

  const MatmulCache *cache_ = nullptr;
  std::vector<Tile> tiles_;
  std::optional<Own> own_;
  bool parallel_ = false; ///< worth waking the other workers
};

} // namespace ztc
