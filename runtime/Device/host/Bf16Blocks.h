// What products of bf16 matrices by AVX512-BF16 and by AMX have in common.
#pragma once
#include "runtime/Device/host/MatmulProblem.h"
#include "runtime/Device/host/ThreadPool.h"
#include <cstddef>
#include <cstdint>

namespace ztc {

/// C = alpha * op(A) op(B) (+ C) (+ bias), A and B bf16, C bf16 or f32, block after block of op(B)'s columns: each is
/// packed into panels as deep as k, of pairs of values of k (Bf16Tiles).
class Bf16Blocks {
public:
  const MatmulProblem &problem() const { return problem_; }

  /// Columns [column, column + columns) of op(B).
  struct Block {
    uint64_t column, columns;
  };
  size_t blocks() const { return (problem_.n + columns_ - 1) / columns_; }
  Block block(size_t index) const;
  /// Panels of a block, which pack() of a plan takes in any parts.
  uint64_t panels(const Block &block) const;

protected:
  explicit Bf16Blocks(const MatmulProblem &problem) : problem_(problem) {}

  void packPanel(const Block &block, const uint16_t *b, uint64_t panel, uint32_t *to) const;
  /// Steps of `values` of k each, of [begin, begin + steps) and counted from `begin`, where rows [row, row + rows) of
  /// op(A) are not known to be zero.
  WorkRange neededSteps(uint64_t row, uint64_t rows, uint64_t begin, uint64_t steps, uint64_t values) const;
  /// A tile of sums, `rows` x `columns`, times alpha, plus C where they are added, plus the bias, into C at (row,
  /// column).
  void finish(const float *sums, uint64_t rows, uint64_t columns, ProductResult c, uint64_t row, uint64_t column) const;

  MatmulProblem problem_;
  uint64_t columns_ = 0; ///< of a block; the last one may be smaller
};

} // namespace ztc
