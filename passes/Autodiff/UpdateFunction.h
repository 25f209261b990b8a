// @update as a function of single parameters.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// How @update keeps what it keeps.
struct UpdateStorage {
  mlir::Type states = {}; ///< of the optimizer's states; null: the parameter's, f32 beside a narrow one
  bool inBlocks = false;  ///< parameters that are marked graph.block_states have theirs in blocks of 8-bit codes
  bool hasMasters = true; ///< of bf16 parameters; without, they are rounded stochastically
};

/// Builds @update for the trainable parameters of `microstep`, at the builder. A gradient has its parameter's type; the
/// states are stored as `storage` says, those in blocks as flat tensors; a narrow parameter has a master, see
/// graph.optimizer_step, in arguments and results after the states. The optimizer is that of the module
/// (graph.optimizer).
mlir::func::FuncOp buildUpdateFunction(mlir::OpBuilder &builder, mlir::func::FuncOp microstep,
                                       const UpdateStorage &storage);

} // namespace ztc
