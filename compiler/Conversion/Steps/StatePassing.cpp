// States from chunk to chunk.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Recurrence.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct StatePassingSteps : StepSourceOpInterface::ExternalModel<StatePassingSteps, graph::StatePassingOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<graph::StatePassingOp>(op);
    StepHead head = emitter.describe(op, "states", "chunk after chunk: library");
    // StatePassingOperands has this order too.
    SmallVector<Attribute> slots;
    for (Value operand : source->getOperands())
      slots.push_back(emitter.operand(operand, Access::Read));
    for (OpResult result : source->getResults())
      slots.push_back(emitter.result(result));
    auto passing = emitter.begin<plan_ir::StatePassingOp>(head, slots);
    passing.chunks = emitter.number(source.getChunks());
    passing.rows = emitter.number(dimensionOf(source.getLast(), 0));
    passing.keys = emitter.number(dimensionOf(source.getLast(), 1));
    passing.values = emitter.number(dimensionOf(source.getLast(), 2));
    passing.positions = emitter.number(source.getTo() ? dimensionOf(source.getTo(), 1) : 0);
    passing.decay_keys = emitter.number(source.getDecay() ? dimensionOf(source.getDecay(), 1) : 0);
    passing.decay_parts = emitter.number(source.getDecay() ? dimensionOf(source.getDecay(), 2) : 0);
    passing.plus = emitter.flag(source.getPlus() != nullptr);
    passing.past = emitter.flag(source.getPast() != nullptr);
    passing.reverse = emitter.flag(source.getReverse());
    passing.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::StatePassingOp>(op, passing);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{
        kernels.addGpuStatePassing(cast<graph::StatePassingOp>(op).getTo() != nullptr)};
  }
};

} // namespace

void registerStatePassingStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::StatePassingOp::attachInterface<StatePassingSteps>(*context);
  });
}

} // namespace ztc
