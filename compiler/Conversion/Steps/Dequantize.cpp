// Weights that are stored in fewer bits, in front of what reads them.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct DequantizeSteps : StepSourceOpInterface::ExternalModel<DequantizeSteps, graph::DequantizeOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<graph::DequantizeOp>(op);
    StepHead head = emitter.describe(op, "dequantize", "a weight in fewer bits, for the product that reads it");
    auto step = emitter.begin<plan_ir::DequantizeOp>(
        head, {emitter.operand(source.getCodes(), Access::Read), emitter.result(op->getResult(0))});
    step.format = plan_ir::WeightFormatAttr::get(op->getContext(), plan_ir::WeightFormat(source.getFormat()));
    step.rows = emitter.number(dimensionOf(source.getY(), 0));
    step.columns = emitter.number(dimensionOf(source.getY(), 1));
    step.type = emitter.elementType(source.getY());
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::DequantizeOp>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto source = cast<graph::DequantizeOp>(op);
    return SmallVector<KernelDescription>{kernels.addGpuDequantize(source.getFormat(), dimensionOf(source.getY(), 1),
                                                                   getElementTypeOrSelf(source.getY().getType()))};
  }
};

} // namespace

void registerDequantizeStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::DequantizeOp::attachInterface<DequantizeSteps>(*context);
  });
}

} // namespace ztc
