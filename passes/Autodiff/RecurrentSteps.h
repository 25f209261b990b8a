// Linear attention and causal convolutions for one position, and what generation keeps of the positions before.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "mlir/IR/Builders.h"

namespace ztc {

/// What a step of a recurrence gives, and the state afterwards.
struct RecurrentStep {
  mlir::Value result, state;
};

/// The operands of linear attention at one position of one sequence: q (1, 1, Hq, K), k (1, 1, H, K), v (1, 1, H, V),
/// decay (1, 1, H, 1 or K) and beta (1, 1, H, 1), null where the op has none.
struct RowOperands {
  mlir::Value q, k, v, decay, beta;
};

/// One step of the recurrence of `op` from `state` (H, K, V): (1, 1, Hq, V), and the state afterwards. f32 in every
/// precision.
RecurrentStep stepOf(mlir::OpBuilder &builder, graph::LinearAttentionOp op, const RowOperands &row, mlir::Value state);

/// `op` at one position, with the `window` (k, C) that windowAfter says: (1, 1, C). Its ops are those of whole rows, in
/// their order.
mlir::Value convolved(mlir::OpBuilder &builder, graph::CausalConvolutionOp op, mlir::Value window,
                      mlir::Value position);

/// Which row of a window of `rows` is that of each of these positions: the remainder, i32. None is below -rows.
graph::Expr rowOfWindow(const graph::Expr &positions, int64_t rows);

/// The state (B, H, K, V) of `op` after the position (B) of each sequence; zeros where that is -1. From there on its
/// positions add nothing to it, and its results at later ones are others than they were.
mlir::Value stateAfter(graph::LinearAttentionOp op, mlir::Value positions);

/// The last `rows` of x (B, S, C) up to the position (B) of each sequence, that of position p at p modulo `rows`:
/// (B, rows, C); zeros before the first. So a step changes one row and moves none.
mlir::Value windowAfter(mlir::OpBuilder &builder, mlir::Value x, int64_t rows, mlir::Value positions);

} // namespace ztc
