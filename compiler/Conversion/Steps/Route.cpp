// Choices in the order of experts.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Experts.h"
#include "runtime/Format/ExpertKernels.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct RouteSteps : StepSourceOpInterface::ExternalModel<RouteSteps, graph::RouteOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<graph::RouteOp>(op);
    StepHead head = emitter.describe(op, "route", "choices in order of experts: library");
    auto route = emitter.begin<plan_ir::RouteOp>(
        head, {emitter.operand(source.getChoices(), Access::Read), emitter.result(op->getResult(0)),
               emitter.result(op->getResult(1)), emitter.result(op->getResult(2))});
    route.tokens = emitter.number(dimensionOf(source.getChoices(), 0));
    route.choices = emitter.number(dimensionOf(source.getChoices(), 1));
    route.experts = emitter.number(elementsOf(source.getStarts()) - 1);
    route.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::RouteOp>(op, route);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    const int64_t experts = elementsOf(cast<graph::RouteOp>(op).getStarts()) - 1;
    if (experts > int64_t(kMaxGpuExperts))
      return op->emitOpError() << "chooses among " << experts << " experts, the most that a GPU routes to are "
                               << kMaxGpuExperts;
    return llvm::to_vector(kernels.addGpuRoute());
  }
};

} // namespace

void registerRouteStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, graph::GraphDialect *) { graph::RouteOp::attachInterface<RouteSteps>(*context); });
}

} // namespace ztc
