// The head and the loss.
#include "compiler/Conversion/StepRoles.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

LogitForm formOf(graph::LinearCrossEntropyOp loss) {
  return {loss.getLogitScale().convertToDouble(), loss.getSoftcap().convertToDouble(), bool(loss.getWeights())};
}

struct LossSteps : StepSourceOpInterface::ExternalModel<LossSteps, graph::LinearCrossEntropyOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto loss = cast<graph::LinearCrossEntropyOp>(op);
    bool training = bool(loss.getScale());
    SmallVector<Attribute> slots{
        emitter.operand(loss.getHidden(), Access::Read), emitter.operand(loss.getHead(), Access::Read),
        emitter.operand(loss.getTargets(), Access::Read), emitter.result(op->getResult(0)), emitter.scratch(op, 0)};
    auto accumulate = emitter.overwrite();
    if (training) {
      slots.push_back(emitter.operand(loss.getScale(), Access::Read));
      slots.push_back(emitter.result(cast<OpResult>(loss.getDhidden())));
    }
    if (loss.getDhead()) {
      slots.push_back(emitter.result(cast<OpResult>(loss.getDhead())));
      accumulate = emitter.modeOf(cast<OpResult>(loss.getDhead()));
    }
    if (op->getAttrOfType<ArrayAttr>(plan_ir::kScratch).size() > 1)
      slots.push_back(emitter.scratch(op, 1));
    if (loss.getWeights())
      slots.push_back(emitter.operand(loss.getWeights(), Access::Read));
    StepHead head =
        emitter.describe(op, "linear_cross_entropy", "head and loss in chunks: library products, generated rows");
    auto step = emitter.begin<plan_ir::LinearCrossEntropyOp>(head, slots);
    step.tokens = emitter.number(dimensionOf(loss.getHidden(), 0));
    step.width = emitter.number(dimensionOf(loss.getHidden(), 1));
    step.vocabulary = emitter.number(dimensionOf(loss.getHead(), 0));
    step.chunk = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
    step.training = emitter.flag(training);
    step.accumulate = accumulate;
    step.loss_accumulate = emitter.modeOf(op->getResult(0));
    step.rows_kernel = emitter.serviceKernel(op, "rows_kernel");
    step.type = emitter.elementType(loss.getHidden());
    step.gpu_chunk = emitter.number(gpuLinearCrossEntropyChunk(
        dimensionOf(loss.getHidden(), 0), dimensionOf(loss.getHead(), 0), elementBytes(loss.getHidden().getType())));
    step.groups = emitter.number(cast<RankedTensorType>(loss.getLoss().getType()).getNumElements());
    step.weighted = emitter.flag(bool(loss.getWeights()));
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::LinearCrossEntropyOp>(op, step);
  }
  SmallVector<ServiceKernel> getHostKernels(Operation *op, KernelModule &kernels) const {
    auto loss = cast<graph::LinearCrossEntropyOp>(op);
    Type type = getElementTypeOrSelf(loss.getHidden().getType());
    return {{"rows_kernel", kernels.addCrossEntropyRows(bool(loss.getScale()), type, formOf(loss))}};
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto loss = cast<graph::LinearCrossEntropyOp>(op);
    Type type = getElementTypeOrSelf(loss.getHidden().getType());
    return SmallVector<KernelDescription>{
        kernels.addGpuCrossEntropyRows(bool(loss.getScale()), type, dimensionOf(loss.getHead(), 0), formOf(loss)),
        kernels.addGpuLossSum()};
  }
};

} // namespace

bool isTrainingLoss(Operation *step) {
  auto loss = dyn_cast<plan_ir::LinearCrossEntropyOp>(step);
  return loss && loss.getTraining();
}

void registerLinearCrossEntropyStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::LinearCrossEntropyOp::attachInterface<LossSteps>(*context);
  });
}

} // namespace ztc
