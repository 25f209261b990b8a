// From ops to steps: one file of this folder for each kind of step of plan.proto.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Conversion/StepEmitter.h"
#include "mlir/IR/DialectRegistry.h"

namespace ztc {

/// A kernel that a library call of the host uses, by the field of its step.
struct ServiceKernel {
  llvm::StringRef field;
  KernelDescription kernel;
};

} // namespace ztc

#include "compiler/Conversion/StepSource.h.inc"

namespace ztc {

/// Gives the ops that become steps of a kind their StepSourceOpInterface.
#define ZTC_STEP(Kind) void register##Kind##Step(mlir::DialectRegistry &registry);
#include "runtime/Format/Steps/StepKinds.def"

/// Those of all kinds. A pass that asks for StepSourceOpInterface has this among its dependent dialects.
void registerStepSources(mlir::DialectRegistry &registry);

/// What the stream of a collective's neighbours is told: a mark, and a wait for one. `start` began the collective.
void emitRecord(StepEmitter &emitter, mlir::Operation *start, llvm::StringRef what, Stream stream, int64_t event);
void emitWait(StepEmitter &emitter, mlir::Operation *start, llvm::StringRef what, Stream stream, int64_t event,
              llvm::ArrayRef<mlir::Attribute> slots);

/// One step that is never executed: it keeps the staging buffer apart from the gradients, which a dump reads through
/// it. Nothing where there is no such buffer.
void emitTransfer(mlir::ModuleOp module, mlir::OpBuilder &builder);

} // namespace ztc
