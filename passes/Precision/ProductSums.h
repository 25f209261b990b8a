// Sums that a product of matrices takes in, so that the result is rounded once: what ztc-fuse-residuals and
// ztc-fuse-biases have in common.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// The op of @microstep after which backward begins; null in other functions, which are forward as a whole.
mlir::Operation *endOfForward(mlir::func::FuncOp function);

/// Calls `fuse` for each sum in front of `end` (all of them if null): with operand 0, and with 1 if that returns false.
/// Returns the number of sums that it fused.
unsigned fuseSums(mlir::func::FuncOp function, mlir::Operation *end,
                  llvm::function_ref<bool(graph::AddOp sum, unsigned operand)> fuse);

/// What computes `value`, in this shape or another, if this is its only reader; else null.
mlir::Operation *onlyReadSource(mlir::Value value);

/// Replaces `sum`, whose operand `index` is `product` in some shape, by `result`, and erases both and the reshapes
/// between them.
void replaceSum(graph::AddOp sum, unsigned index, mlir::Operation *product, mlir::Value result);

} // namespace ztc
