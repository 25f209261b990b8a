// Inverses of matrices with ones on the diagonal and zeros above it.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Recurrence.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct UnitLowerInverseSteps : StepSourceOpInterface::ExternalModel<UnitLowerInverseSteps, graph::UnitLowerInverseOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<graph::UnitLowerInverseOp>(op);
    StepHead head = emitter.describe(op, "inverse", "matrices of a chunk, each by itself: library");
    auto inverse = emitter.begin<plan_ir::UnitLowerInverseOp>(
        head, {emitter.operand(source.getA(), Access::Read), emitter.result(op->getResult(0))});
    inverse.count = emitter.number(dimensionOf(source.getA(), 0));
    inverse.size = emitter.number(dimensionOf(source.getA(), 1));
    inverse.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::UnitLowerInverseOp>(op, inverse);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{kernels.addGpuUnitLowerInverse()};
  }
};

} // namespace

void registerUnitLowerInverseStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::UnitLowerInverseOp::attachInterface<UnitLowerInverseSteps>(*context);
  });
}

} // namespace ztc
