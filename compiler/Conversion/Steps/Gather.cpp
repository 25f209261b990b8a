// Rows of a table by index.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct EmbeddingSteps : StepSourceOpInterface::ExternalModel<EmbeddingSteps, graph::EmbeddingOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto embedding = cast<graph::EmbeddingOp>(op);
    int64_t rowBytes = tensorBytes(embedding.getTable().getType()) / dimensionOf(embedding.getTable(), 0);
    StepHead head = emitter.describe(op, "embedding", "rows by index: library");
    auto gather = emitter.begin<plan_ir::GatherOp>(head, {emitter.operand(embedding.getTable(), Access::Read),
                                                          emitter.operand(embedding.getIndices(), Access::Read),
                                                          emitter.result(op->getResult(0))});
    gather.rows = emitter.number(elementsOf(embedding.getIndices()));
    gather.row_bytes = emitter.number(rowBytes);
    gather.table_rows = emitter.number(dimensionOf(embedding.getTable(), 0));
    gather.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::GatherOp>(op, gather);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto table = cast<RankedTensorType>(cast<graph::EmbeddingOp>(op).getTable().getType());
    return SmallVector<KernelDescription>{
        kernels.addGpuGather(table.getDimSize(1) * llvm::divideCeil(table.getElementTypeBitWidth(), 8))};
  }
};

} // namespace

void registerGatherStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::EmbeddingOp::attachInterface<EmbeddingSteps>(*context);
  });
}

} // namespace ztc
