// What the attention kernels for GPUs share: a block's place in the problem, and what a row sees.
#pragma once
#include "compiler/Codegen/BlockKernel.h"

namespace ztc::codegen {

/// Which of the kernels of runtime/Format/ServiceKernels.md.
enum class AttentionKernel { Forward, Delta, KeyGrad, QueryGrad };

/// Emits into a kernel whose block takes `rows` neighbouring rows (queries; of KeyGrad keys) of one head and goes over
/// tiles of columns (keys; of KeyGrad queries). Numbers within a head are i32, offsets of tiles i64.
class AttentionEmitter {
public:
  static constexpr int64_t kThreads = 128;
  using Values = BlockKernel::Values;

  AttentionEmitter(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form, int64_t rows);

protected:
  /// A tensor (B, S, heads, D), of which a block reads or writes one head at a time.
  struct Tensor {
    mlir::Value base, heads, head;
  };
  /// A buffer with the heads of queries, and `head` or the block's own.
  Tensor queries(unsigned buffer, mlir::Value head = {}) { return {k.buffer(buffer), heads_, head ? head : head_}; }
  Tensor keys(unsigned buffer) { return {k.buffer(buffer), kvHeads_, kvHead_}; }
  /// The first element of row `row` in the block's batch.
  mlir::Value rowOf(const Tensor &tensor, mlir::Value row);
  mlir::Value rowStride(const Tensor &tensor) { return b.mul(tensor.heads, i32(dim_)); }
  /// Where lse or delta of row 0 of the block's batch and `head` is.
  mlir::Value statistics(unsigned buffer, mlir::Value head);
  /// Number `row` from there on, zero past the end of the sequence.
  mlir::Value statistic(mlir::Value base, mlir::Value row);
  void storeStatistic(mlir::Value value, mlir::Value base, mlir::Value row, mlir::Value condition);

  /// Goes over the tiles of `step` columns that the block's rows see, in order. `body` gets a tile's first column and
  /// whether there is a row that does not see all of it: no others need masks.
  Values forTiles(int64_t step, Values carried, llvm::function_ref<void(mlir::Value, bool masked, Values &)> body);
  /// Whether query `query` sees key `key`; both are numbers within the sequence, or past it. `edge` is the
  /// documentEdge() of the one that is a row of the block.
  mlir::Value sees(mlir::Value query, mlir::Value key, mlir::Value edge);
  /// Of packed rows where the document of a row of the block starts, for KeyGrad where it ends; else null.
  mlir::Value documentEdge(mlir::Value row);
  /// The score that a product of a query and a key gives.
  mlir::Value score(mlir::Value product);
  /// Probabilities and the products' cotangents in place of products and the probabilities' cotangents.
  /// `visible` is null where all are.
  void emitSoftmaxGrad(mlir::Value &product, mlir::Value &cotangent, mlir::Value visible, mlir::Value lse,
                       mlir::Value delta);
  /// `value` where `visible`, which is null where all are; else `otherwise`.
  mlir::Value masked(mlir::Value visible, mlir::Value value, mlir::Value otherwise) {
    return visible ? b.select(visible, value, otherwise) : value;
  }

  mlir::Value i32(int64_t value) { return b.integer(b.getI32Type(), value); }
  mlir::Value zero() { return b.real(b.getF32Type(), 0.0); }
  mlir::Value both(mlir::Value left, mlir::Value right) { return mlir::arith::AndIOp::create(b, left, right); }
  mlir::Value less(mlir::Value left, mlir::Value right) {
    return b.compare(mlir::arith::CmpIPredicate::slt, left, right);
  }
  /// `then` where `condition` holds, else `otherwise`.
  mlir::Value guarded(mlir::Value condition, mlir::Value otherwise, llvm::function_ref<mlir::Value()> then) {
    return k.choose(condition, then, [&] { return otherwise; });
  }
  /// Sum or maximum over `lanes` neighbouring threads, for each of them.
  mlir::Value acrossLanes(mlir::Value value, int64_t lanes, bool sum);

  BlockKernel &k;
  KernelBuilder &b;
  const AttentionKernel kind_;
  const bool causal_, windowed_, packed_, softcapped_;
  const int64_t dim_, rows_;
  mlir::Type element_; ///< of the tensors, in the kernel's context
  mlir::Value thread_, seq_, heads_, kvHeads_, window_, scale_;
  mlir::Value cap_, inCaps_;                  ///< of scores, and scale / cap; null where there is none
  mlir::Value batch_, head_, kvHead_, group_; ///< head_: of queries; for KeyGrad the first of the group
  mlir::Value row_;                           ///< first of the block

private:
  /// Columns [first, end) that the block's rows see; `first` is a multiple of `step`, or of the rows' number.
  std::pair<mlir::Value, mlir::Value> columnRange(int64_t step);
  mlir::Value wide(mlir::Value value);
  /// Where the document of `row` starts, 0 past the sequence's end; and the first position after that document.
  mlir::Value documentStart(mlir::Value row);
  mlir::Value documentEnd(mlir::Value row);

  mlir::Value starts_; ///< of the documents of the block's batch; null where rows are not packed
};

/// By fused multiply-adds in f32: for everything.
int64_t attentionRowsFma(AttentionKernel kind, const AttentionForm &form);
void emitAttentionFma(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form);
/// By matrix instructions; no rows where there is no such form of the kernel.
int64_t attentionRowsMma(AttentionKernel kind, const AttentionForm &form);
void emitAttentionMma(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form);

} // namespace ztc::codegen
