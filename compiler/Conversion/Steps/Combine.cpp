// Of each token the sum of its choices' rows.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Experts.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct CombineSteps : StepSourceOpInterface::ExternalModel<CombineSteps, graph::CombineOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<graph::CombineOp>(op);
    StepHead head = emitter.describe(op, "combine", "rows by index, added: library");
    auto combine = emitter.begin<plan_ir::CombineOp>(head, {emitter.operand(source.getX(), Access::Read),
                                                            emitter.operand(source.getPlaces(), Access::Read),
                                                            emitter.result(op->getResult(0))});
    combine.rows = emitter.number(dimensionOf(source.getPlaces(), 0));
    combine.choices = emitter.number(dimensionOf(source.getPlaces(), 1));
    combine.width = emitter.number(dimensionOf(source.getX(), 1));
    combine.type = emitter.elementType(source.getX());
    combine.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::CombineOp>(op, combine);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    Value x = cast<graph::CombineOp>(op).getX();
    return SmallVector<KernelDescription>{kernels.addGpuCombine(dimensionOf(x, 1), getElementTypeOrSelf(x.getType()))};
  }
};

} // namespace

void registerCombineStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, graph::GraphDialect *) { graph::CombineOp::attachInterface<CombineSteps>(*context); });
}

} // namespace ztc
