// Products of f32 matrices by kernels of our own: where they are faster than the library's.
#pragma once
#include "runtime/Device/host/MatmulProblem.h"
#include "runtime/Device/host/SgemmTiles.h"
#include "runtime/Device/host/ThreadPool.h"
#include <cstddef>
#include <cstdint>

namespace ztc {

/// The widest tiles that this processor runs and that it is not forbidden (hostSupports); null where it runs none.
const SgemmTiles *sgemmTiles();

/// How C = alpha * op(A) op(B) (+ C), all f32, is computed: block after block of B is packed, then multiplied by rows
/// of A. Panels can be packed, and then rows multiplied, by several threads at once.
///
/// An element of C is a chain of fused multiply-adds over each piece of k, times alpha, pieces added in order; the
/// pieces depend on k alone. So its bits do not depend on m, n, the blocks, the instruction set or who computes it.
class SgemmPlan {
public:
  explicit SgemmPlan(const MatmulProblem &problem, const SgemmTiles &tiles = *sgemmTiles());
  const MatmulProblem &problem() const { return problem_; }

  /// A block of op(B): columns [column, column + columns) of rows [k, k + depth). Blocks of equal columns are to be
  /// multiplied in order, because their products add up.
  struct Block {
    uint64_t column, columns, k, depth;
  };
  size_t blocks() const;
  Block block(size_t index) const;
  /// Panels of a block, which pack() takes in any parts.
  uint64_t panels(const Block &block) const;

  /// Whether rows are so few that packing whole blocks of B would not repay: panel by panel, each stays in the first
  /// cache.
  bool hasFewRows() const { return problem_.m < kFewRows; }
  static constexpr uint64_t kFewRows = 12;

  /// Bytes of a packed block (of a panel where rows are few), and what a thread that multiplies wants as scratch. Any
  /// alignment of 64 does.
  uint64_t packedBytes() const;
  uint64_t scratchBytes() const;

  /// Packs panels [begin, end) of a block.
  void pack(const Block &block, const float *b, uint64_t begin, uint64_t end, void *packed) const;
  /// Rows of op(A) by panels of the packed block.
  void multiply(const Block &block, const float *a, const void *packed, ProductResult c, WorkRange rows,
                WorkRange panels, void *scratch) const;
  /// Pieces of rows are best multiples of this.
  uint64_t rowGrain() const { return tiles_->rows; }

  /// The product of few rows.
  void multiplyFewRows(const float *a, const float *b, float *c, void *packed, void *scratch) const;

private:
  /// Whether rows of A are copied before they are multiplied.
  bool copiesA() const;
  /// The part of [begin, begin + depth) of k, counted from `begin`, where rows [row, row + rows) of op(A) are not known
  /// to be zero.
  WorkRange neededDepth(uint64_t row, uint64_t rows, uint64_t begin, uint64_t depth) const;
  void multiplyRows(const Block &block, const float *a, const float *packed, float *c, uint64_t first, uint64_t rows,
                    WorkRange panels, float *scratch) const;

  MatmulProblem problem_;
  const SgemmTiles *tiles_;
  uint64_t depth_;               ///< of a piece of k
  uint64_t columns_, pieces_;    ///< of a block; the last ones may be smaller
  uint64_t panelOfA_, panelOfB_; ///< floats from one packed panel to the next
};

/// The whole product in one thread; bits are those of pack() and multiply() of any blocks.
void sgemm(const SgemmPlan &plan, const float *a, const float *b, float *c, void *scratch);
/// Bytes that sgemm() wants as scratch. Any alignment of 64 does.
uint64_t sgemmScratchBytes(const SgemmPlan &plan);

} // namespace ztc
