// Gradients that are rounded to the type in which they go over the wire and into the update.
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// In place where the planner puts both types into one accumulator, so it must happen when nothing adds to that any
/// more.
struct WireCastSteps : StepSourceOpInterface::ExternalModel<WireCastSteps, graph::CastOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    if (!isWireCast(op))
      return StepEmitter::refuse(op);
    auto isReduced = [](Operation *user) { return isa<dist::ReduceScatterStartOp>(user); };
    const bool isSum = isSumCast(op);
    if (!isSum && (!op->hasOneUse() || !isReduced(*op->user_begin())))
      return op->emitOpError("rounds a gradient that is not reduced");
    StepHead head = emitter.describe(op, "round",
                                     isSum ? "the update reads gradients in the type of the parameters"
                                           : "gradients go over the wire in the type of the parameters");
    auto narrow = emitter.begin<plan_ir::NarrowOp>(
        head, {emitter.operand(op->getOperand(0), Access::Read), emitter.operand(op->getResult(0), Access::Write)});
    narrow.from = emitter.elementType(op->getOperand(0));
    narrow.to = emitter.elementType(op->getResult(0));
    narrow.only_last =
        isSum ? emitter.builder().getUnitAttr() : (*op->user_begin())->getAttrOfType<UnitAttr>("only_last");
    narrow.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::NarrowOp>(op, narrow);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    if (!isWireCast(op))
      return SmallVector<KernelDescription>();
    return SmallVector<KernelDescription>{kernels.addGpuNarrow(getElementTypeOrSelf(op->getResult(0).getType()))};
  }
};

} // namespace

void registerNarrowStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, graph::GraphDialect *) { graph::CastOp::attachInterface<WireCastSteps>(*context); });
}

} // namespace ztc
