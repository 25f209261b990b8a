// @update as a function of single parameters.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// Builds @update for the trainable parameters of `microstep`, at the builder. A gradient has its parameter's type; the
/// moments have `momentType` (null: the parameter's, f32 beside a narrow one); a narrow parameter has a master, see
/// graph.optimizer_step, in arguments and results behind the states. The optimizer is that of the module
/// (graph.optimizer).
mlir::func::FuncOp buildUpdateFunction(mlir::OpBuilder &builder, mlir::func::FuncOp microstep, mlir::Type momentType);

} // namespace ztc
