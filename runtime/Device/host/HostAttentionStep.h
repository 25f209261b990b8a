// What the host's attention steps share: the shape, the blocks, the matrix products, places in tensors.
#pragma once
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace ztc {

/// One block of query rows and the columns (keys) that any of its rows sees.
struct QueryBlock {
  uint64_t row = 0, rows = 0;
  uint64_t column = 0, columns = 0;
};

/// How rows of a matrix lie in memory.
struct RowLayout {
  plan::DataType type = plan::F32;
  uint64_t ld = 0; ///< elements between two rows
};

/// What forward and gradient share, in any type.
class HostAttentionStep : public HostStep {
protected:
  explicit HostAttentionStep(HostResources &resources) : HostStep(resources) {}

  Status prepareShape(const HostPrepare &from) {
    const plan::Attention &attention = from.step.attention();
    batch_ = attention.batch();
    seq_ = attention.seq();
    heads_ = attention.heads();
    kvHeads_ = attention.kv_heads();
    dim_ = attention.head_dim();
    window_ = attention.window();
    causal_ = attention.causal();
    if (!batch_ || !seq_ || !heads_ || !kvHeads_ || !dim_ || heads_ % kvHeads_ != 0)
      return dataLoss("attention has an empty dimension or heads that do not divide");
    uint64_t block = std::min(std::max<uint64_t>(1, attention.block()), seq_);
    ld_ = scratchRowElements(seq_);
    scoresBytes_ = scratchBytes(block * ld_);
    blockRows_ = block;
    scratchBytes_ = attentionScratchBytes(seq_, block, attention.grad());
    for (uint64_t row = 0; row < seq_; row += block) {
      QueryBlock piece;
      piece.row = row;
      piece.rows = std::min(block, seq_ - row);
      uint64_t end = causal_ ? row + piece.rows : seq_;
      // Columns that no row sees are left out in multiples of 64: the sums' lanes are columns modulo 64.
      if (causal_ && window_ && row + 1 > window_)
        piece.column = (row + 1 - window_) / 64 * 64;
      piece.columns = end - piece.column;
      blocks_.push_back(piece);
    }
    return Status::ok();
  }

  /// scale * (rows of q) (columns of k)^T into scratch rows of f32.
  MatmulProblem scoresProblem(const QueryBlock &block, float alpha, RowLayout queries, RowLayout keys) const {
    MatmulProblem problem{.m = block.rows, .n = block.columns, .k = dim_};
    problem.transposeB = true;
    problem.alpha = alpha;
    setLayouts(problem, queries, keys, {plan::F32, ld_});
    return problem;
  }
  /// (scores of the block) (columns of a k-like tensor) into rows of a q-like tensor.
  MatmulProblem mixProblem(const QueryBlock &block, RowLayout scores, RowLayout keys, RowLayout result) const {
    MatmulProblem problem{.m = block.rows, .n = dim_, .k = block.columns};
    setLayouts(problem, scores, keys, result);
    return problem;
  }
  /// (scores of the block)^T (rows of a q-like tensor), added to columns of a k-like tensor.
  MatmulProblem spreadProblem(const QueryBlock &block, RowLayout scores, RowLayout queries, RowLayout result) const {
    MatmulProblem problem{.m = block.columns, .n = dim_, .k = block.rows};
    problem.transposeA = true;
    problem.add = true;
    setLayouts(problem, scores, queries, result);
    return problem;
  }
  /// The same problem with what the mask of the block spares it, the scores being as the service kernels leave them.
  MatmulProblem masked(MatmulProblem problem, const QueryBlock &block, Causal causal) const {
    if (causal_) {
      problem.causal = causal;
      problem.diagonal = block.row - block.column;
    }
    return problem;
  }
  /// Rows of q-like and k-like tensors in the arena.
  RowLayout queryLayout(plan::DataType type) const { return {type, heads_ * dim_}; }
  RowLayout keyLayout(plan::DataType type) const { return {type, kvHeads_ * dim_}; }

  /// Element offsets of position `position` in q-like and k-like tensors, and of a row's statistics in lse (B, H, S).
  uint64_t queryOffset(uint64_t batch, uint64_t head, uint64_t position) const {
    return ((batch * seq_ + position) * heads_ + head) * dim_;
  }
  uint64_t keyOffset(uint64_t batch, uint64_t kvHead, uint64_t position) const {
    return ((batch * seq_ + position) * kvHeads_ + kvHead) * dim_;
  }
  uint64_t rowOffset(uint64_t batch, uint64_t head, uint64_t row) const { return (batch * heads_ + head) * seq_ + row; }
  /// The service kernels' scalars: first, ld, columns, window; positions count from the block's first column.
  std::array<int64_t, 4> kernelScalars(const QueryBlock &block) const {
    return {int64_t(block.row - block.column), int64_t(ld_), int64_t(block.columns), int64_t(window_)};
  }

  static void setLayouts(MatmulProblem &problem, RowLayout a, RowLayout b, RowLayout c) {
    problem.lda = a.ld;
    problem.typeA = a.type;
    problem.ldb = b.ld;
    problem.typeB = b.type;
    problem.ldc = c.ld;
    problem.typeC = c.type;
  }

  uint64_t batch_ = 0, seq_ = 0, heads_ = 0, kvHeads_ = 0, dim_ = 0, window_ = 0;
  bool causal_ = false;
  uint64_t blockRows_ = 0;                      ///< of the largest block
  uint64_t ld_ = 0;                             ///< elements between rows of scores
  uint64_t scoresBytes_ = 0, scratchBytes_ = 0; ///< per worker
  std::vector<QueryBlock> blocks_;
};

/// Attention over bf16 or f16, or its gradient.
PreparedStep prepareHostNarrowAttention(const HostPrepare &from);

} // namespace ztc
