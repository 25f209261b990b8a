// What the host's attention steps share: the shape, the blocks, the matrix products, places in tensors.
#pragma once
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace ztc {

/// One block of query rows of a sequence and the columns (keys) that any of its rows sees. No block has rows of two
/// documents, so that a packed document is computed as it is alone.
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
    packed_ = attention.packed();
    softcap_ = float(attention.softcap());
    // The service kernels take capped scores divided by their cap.
    scale_ = float(attention.softcap() != 0 ? attention.scale() / attention.softcap() : attention.scale());
    if (!batch_ || !seq_ || !heads_ || !kvHeads_ || !dim_ || heads_ % kvHeads_ != 0)
      return dataLoss("attention has an empty dimension or heads that do not divide");
    const uint64_t block = std::min(std::max<uint64_t>(1, attention.block()), seq_);
    ld_ = scratchRowElements(seq_);
    scoresBytes_ = scratchBytes(block * ld_);
    blockRows_ = block;
    scratchBytes_ = attentionScratchBytes(seq_, block, attention.grad());
    firstBlocks_.assign(1, 0);
    for (uint64_t batch = 0; batch < batch_; ++batch) {
      addDocument(0, seq_);
      firstBlocks_.push_back(blocks_.size());
    }
    return Status::ok();
  }

  /// Calls `reserve` with the sizes of all blocks that there can be: of packed rows those of any document.
  template <typename Reserve> Status forAllSizes(Reserve &&reserve) const {
    if (!packed_) {
      for (uint64_t index = 0; index < firstBlocks_[1]; ++index)
        ZTC_RETURN_IF_ERROR(reserve(blocks_[index]));
      return Status::ok();
    }
    for (uint64_t columns = 1; columns <= seq_; ++columns) {
      const uint64_t rows = std::min(blockRows_, columns);
      ZTC_RETURN_IF_ERROR(reserve(QueryBlock{columns - rows, rows, 0, columns}));
    }
    for (uint64_t rows = 1; rows < blockRows_; ++rows)
      ZTC_RETURN_IF_ERROR(reserve(QueryBlock{seq_ - rows, rows, 0, seq_}));
    return Status::ok();
  }

  /// Of packed rows: the blocks of this step's documents, from operand `index`, which is (B, S). DataLoss where that
  /// is not a row of documents.
  Status placeDocuments(size_t index) {
    if (!packed_)
      return Status::ok();
    blocks_.clear();
    firstBlocks_.assign(1, 0);
    const auto *starts = pointer<int32_t>(index);
    for (uint64_t batch = 0; batch < batch_; ++batch, starts += seq_) {
      for (uint64_t start = 0, end = 1; start < seq_; start = end++) {
        while (end < seq_ && starts[end] == int64_t(start))
          ++end;
        if (starts[start] != int64_t(start))
          return dataLoss("document_starts of a packed row do not say where its documents start");
        addDocument(start, end);
      }
      firstBlocks_.push_back(blocks_.size());
    }
    return Status::ok();
  }

  /// A (batch, head, block) by its number.
  struct Task {
    uint64_t batch, head;
    const QueryBlock &block;
  };
  uint64_t tasks() const { return blocks_.size() * heads_; }
  Task task(uint64_t number) const {
    uint64_t batch = 0;
    while (number >= firstBlocks_[batch + 1] * heads_)
      ++batch;
    number -= firstBlocks_[batch] * heads_;
    const uint64_t blocks = firstBlocks_[batch + 1] - firstBlocks_[batch];
    return {batch, number / blocks, blocks_[firstBlocks_[batch] + number % blocks]};
  }
  /// The blocks of a batch row, in order.
  std::span<const QueryBlock> blocksOf(uint64_t batch) const {
    return std::span(blocks_).subspan(firstBlocks_[batch], firstBlocks_[batch + 1] - firstBlocks_[batch]);
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
  /// A product in the calling thread.
  void multiply(uint32_t worker, const MatmulProblem &problem, const void *a, const void *b, void *c) const {
    resources_.matmuls.execute(worker, problem, a, b, c);
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
  /// The service kernels' scalars: first, ld, columns, window, cap; positions count from the block's first column.
  std::array<int64_t, 5> kernelScalars(const QueryBlock &block) const {
    return {int64_t(block.row - block.column), int64_t(ld_), int64_t(block.columns), int64_t(window_),
            int64_t(std::bit_cast<uint32_t>(softcap_))};
  }

  /// The blocks of positions [start, end) of a row.
  void addDocument(uint64_t start, uint64_t end) {
    for (uint64_t row = start; row < end; row += blockRows_) {
      QueryBlock piece{row, std::min(blockRows_, end - row), start, 0};
      // Columns that no row sees are left out in multiples of 64: the sums' lanes are columns modulo 64.
      if (causal_ && window_ && row - start + 1 > window_)
        piece.column += (row - start + 1 - window_) / 64 * 64;
      piece.columns = (causal_ ? row + piece.rows : end) - piece.column;
      blocks_.push_back(piece);
    }
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
  bool causal_ = false, packed_ = false;
  float scale_ = 1, softcap_ = 0;               ///< alpha of the products that are scores; 0: no cap
  uint64_t blockRows_ = 0;                      ///< of the largest block
  uint64_t ld_ = 0;                             ///< elements between rows of scores
  uint64_t scoresBytes_ = 0, scratchBytes_ = 0; ///< per worker

private:
  std::vector<QueryBlock> blocks_;    ///< of all rows of the batch
  std::vector<uint64_t> firstBlocks_; ///< by row of the batch, and how many there are
};

/// Attention over bf16 or f16, or its gradient.
PreparedStep prepareHostNarrowAttention(const HostPrepare &from);

} // namespace ztc
