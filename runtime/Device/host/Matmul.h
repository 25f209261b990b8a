// Matrix products by kernels of our own: prepared once, executed by the workers of the pool on pieces of the output.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/host/AmxGemm.h"
#include "runtime/Device/host/Bf16Gemm.h"
#include "runtime/Device/host/MatmulProblem.h"
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Device/host/ThreadPool.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace ztc {

/// Whether matrices of these types are multiplied as they lie: A and B are f32, as C is, or bf16 where the processor
/// has instructions for it.
bool multipliesAsStored(const MatmulProblem &problem);

/// What bf16 matrices are multiplied by as they lie.
enum class Bf16Instructions { None, Avx512, Amx };
/// The best that this processor has and this process may use.
Bf16Instructions bf16Instructions();

/// A product by the kernels that compute it.
using MatmulPlan = std::variant<SgemmPlan, Bf16GemmPlan, AmxGemmPlan>;

/// One matrix product in one thread. Owned by the MatmulCache.
class Matmul {
public:
  Matmul(const Matmul &) = delete;
  /// Runs in the calling thread, as `worker`, whose scratchpad it uses.
  void execute(uint32_t worker, const void *a, const void *b, ProductResult c) const;

private:
  friend class MatmulCache;
  Matmul(const class MatmulCache &cache, const MatmulProblem &problem);
  uint64_t scratchpadBytes() const;

  const class MatmulCache &cache_;
  MatmulPlan plan_;
};

/// All products of a device, by problem: equal layers share them. The scratchpads of the workers are made with them, so
/// that executing allocates nothing.
class MatmulCache {
public:
  explicit MatmulCache(uint32_t workers, Bf16Instructions instructions = bf16Instructions())
      : scratchpads_(workers), instructions_(instructions) {}
  /// Makes the product on first sight. Only while no product is running. The pointer lives as long as the cache. Fails
  /// (Unavailable) where the processor has no instructions for it.
  StatusOr<const Matmul *> get(const MatmulProblem &problem);
  /// Makes room for a product that execute() is to compute: one whose sizes are known only when it runs, as are those
  /// of documents in a packed row. Fails as get() does.
  Status reserve(const MatmulProblem &problem);
  /// The same for every product that is this one but for `size` (m, n or k), which is from 1 to what it is here.
  Status reserveUpTo(MatmulProblem problem, uint64_t MatmulProblem::*size);
  /// The whole product in the calling thread, as `worker`. There is room for it: see above.
  void execute(uint32_t worker, const MatmulProblem &problem, const void *a, const void *b, void *c) const;
  /// Makes room for a block that is packed for all workers, and for what each wants beside it.
  Status reserve(uint64_t packedBytes, uint64_t scratchBytes);
  /// How this device multiplies a problem; there are instructions for it.
  MatmulPlan plan(const MatmulProblem &problem) const;
  /// Pieces of a problem's rows are best multiples of this.
  uint64_t rowGrain(const MatmulProblem &problem) const;
  uint32_t workers() const { return uint32_t(scratchpads_.size()); }
  uint64_t scratchpadBytes() const { return scratchpadBytes_ * workers() + packedBytes_; }
  std::byte *scratchpad(uint32_t worker) const { return scratchpads_[worker].get(); }
  std::byte *packed() const { return packed_.get(); }

private:
  struct FreeDeleter {
    void operator()(void *p) const;
  };
  using Scratch = std::unique_ptr<std::byte, FreeDeleter>;
  static Status check(const MatmulProblem &problem);
  static Status grow(Scratch &scratch, uint64_t bytes);
  Status growScratchpads(uint64_t bytes);

  std::vector<Scratch> scratchpads_; ///< by worker, of scratchpadBytes_ each
  uint64_t scratchpadBytes_ = 0;     ///< the largest any product wants
  Scratch packed_;                   ///< of packedBytes_, for all workers
  uint64_t packedBytes_ = 0;
  const Bf16Instructions instructions_;
  std::map<MatmulProblem, std::unique_ptr<Matmul>> products_;
  std::map<MatmulProblem, uint64_t> reservedUpTo_; ///< by problem without one of its sizes: the largest one so far
};

/// A product (or a batch of equal ones) cut into pieces of the output, never along k, so that its bits are the same for
/// any T. Workers first pack a block of B together, then each multiplies rows by it; small products and f32 ones whose
/// B is several blocks are cut into tiles, each packed by the worker that computes it.
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
  void execute(ThreadPool &pool, const void *a, const void *b, ProductResult c) const;

private:
  struct Tile {
    const Matmul *matmul;
    uint64_t a, b;   ///< offsets in bytes
    uint64_t c;      ///< in elements
    uint64_t column; ///< where its columns begin
  };
  /// A product whose blocks of B all workers share. Its rows are cut as workers come; where columns are cut too, into
  /// `rows` x `columns` pieces.
  struct Shared {
    MatmulPlan plan;
    uint32_t rows = 1, columns = 1;
  };
  Status prepareShared(MatmulCache &cache, const MatmulProblem &problem);
  template <class Plan>
  void executeShared(const Plan &plan, ThreadPool &pool, const void *a, const void *b, ProductResult c) const;

  const MatmulCache *cache_ = nullptr;
  uint64_t bytesC_ = 0; ///< of an element
  std::vector<Tile> tiles_;
  std::optional<Shared> shared_;
  bool parallel_ = false; ///< worth waking the other workers
};

} // namespace ztc
