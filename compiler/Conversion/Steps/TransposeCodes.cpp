// Gathered codes of weights, in the order in which backward reads them.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct TransposeCodesSteps : StepSourceOpInterface::ExternalModel<TransposeCodesSteps, graph::TransposeCodesOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto transpose = cast<graph::TransposeCodesOp>(op);
    StepHead head = emitter.describe(op, "transpose codes", "fp8 codes of a product's operand");
    auto step = emitter.begin<plan_ir::TransposeCodesOp>(
        head, {emitter.operand(transpose.getCodes(), Access::Read), emitter.result(op->getResult(0))});
    step.rows = emitter.number(dimensionOf(transpose.getCodes(), 0));
    step.columns = emitter.number(dimensionOf(transpose.getCodes(), 1));
    step.accumulate = emitter.overwrite();
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::TransposeCodesOp>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{kernels.addGpuQuantizeFp8(
        /*isE4m3=*/true, /*byRows=*/false, /*byColumns=*/true, IntegerType::get(op->getContext(), 8))};
  }
};

/// Codes that a kernel has written with a scale of the step before.
struct NoteCodesSteps : StepSourceOpInterface::ExternalModel<NoteCodesSteps, graph::NoteCodesOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto note = cast<graph::NoteCodesOp>(op);
    StepHead head = emitter.describe(op, "transpose codes", "fp8 codes of a product's operand, and their maximum");
    auto step = emitter.begin<plan_ir::TransposeCodesOp>(
        head, {emitter.operand(note.getCodes(), Access::Read), emitter.result(op->getResult(1)),
               emitter.operand(note.getParts(), Access::Read), emitter.result(op->getResult(0))});
    step.rows = emitter.number(dimensionOf(note.getCodes(), 0));
    step.columns = emitter.number(dimensionOf(note.getCodes(), 1));
    step.maxima = emitter.elementType(note.getParts());
    step.accumulate = emitter.modeOf(op->getResult(0));
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::TransposeCodesOp>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{
        kernels.addGpuNoteCodes(getElementTypeOrSelf(cast<graph::NoteCodesOp>(op).getParts().getType()))};
  }
};

} // namespace

void registerTransposeCodesStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::TransposeCodesOp::attachInterface<TransposeCodesSteps>(*context);
    graph::NoteCodesOp::attachInterface<NoteCodesSteps>(*context);
  });
}

} // namespace ztc
