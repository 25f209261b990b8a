// Rows added to a table by index.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct EmbeddingGradSteps : StepSourceOpInterface::ExternalModel<EmbeddingGradSteps, graph::EmbeddingGradOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto grad = cast<graph::EmbeddingGradOp>(op);
    StepHead head = emitter.describe(op, "embedding_grad", "rows added by index, in order: library");
    auto scatter = emitter.begin<plan_ir::ScatterAddOp>(head, {emitter.operand(grad.getIndices(), Access::Read),
                                                               emitter.operand(grad.getDy(), Access::Read),
                                                               emitter.result(op->getResult(0))});
    scatter.rows = emitter.number(elementsOf(grad.getIndices()));
    scatter.width = emitter.number(dimensionOf(grad.getDtable(), 1));
    scatter.table_rows = emitter.number(dimensionOf(grad.getDtable(), 0));
    scatter.accumulate = emitter.modeOf(op->getResult(0));
    scatter.type = emitter.elementType(grad.getDy());
    scatter.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::ScatterAddOp>(op, scatter);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto grad = cast<graph::EmbeddingGradOp>(op);
    return SmallVector<KernelDescription>{
        kernels.addGpuScatterAdd(dimensionOf(grad.getDtable(), 1), getElementTypeOrSelf(grad.getDy().getType()))};
  }
};

} // namespace

void registerScatterAddStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::EmbeddingGradOp::attachInterface<EmbeddingGradSteps>(*context);
  });
}

} // namespace ztc
