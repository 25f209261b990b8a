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
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::TransposeCodesOp>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{kernels.addGpuQuantizeFp8(
        /*isE4m3=*/true, /*byRows=*/false, /*byColumns=*/true, IntegerType::get(op->getContext(), 8))};
  }
};

} // namespace

void registerTransposeCodesStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::TransposeCodesOp::attachInterface<TransposeCodesSteps>(*context);
  });
}

} // namespace ztc
