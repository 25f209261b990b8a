// What kinds of steps are to those who move and order them: asked here, so that no pass lists kinds.
#pragma once

namespace mlir {
class Operation;
} // namespace mlir

namespace ztc {

/// Whether `step` is the head and loss of the training program, after which the backward part begins.
bool isTrainingLoss(mlir::Operation *step);
/// Whether `step` copies a slot out for a checkpoint or in from one: it goes to where the slot is.
bool isTransfer(mlir::Operation *step);

} // namespace ztc
