// Rows of a table by index.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Experts.h"

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

/// Rows of tokens for their choices: row r is that of the token which choice order[r] is of.
struct DispatchSteps : StepSourceOpInterface::ExternalModel<DispatchSteps, graph::DispatchOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto dispatch = cast<graph::DispatchOp>(op);
    StepHead head = emitter.describe(op, "dispatch", "rows by index: library");
    auto gather = emitter.begin<plan_ir::GatherOp>(head, {emitter.operand(dispatch.getX(), Access::Read),
                                                          emitter.operand(dispatch.getOrder(), Access::Read),
                                                          emitter.result(op->getResult(0))});
    gather.rows = emitter.number(elementsOf(dispatch.getOrder()));
    gather.row_bytes = emitter.number(tensorBytes(dispatch.getX().getType()) / dimensionOf(dispatch.getX(), 0));
    gather.table_rows = emitter.number(dimensionOf(dispatch.getX(), 0));
    gather.divisor = emitter.number(dimensionOf(dispatch.getPlaces(), 1));
    gather.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::GatherOp>(op, gather);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto dispatch = cast<graph::DispatchOp>(op);
    return SmallVector<KernelDescription>{
        kernels.addGpuGather(tensorBytes(dispatch.getX().getType()) / dimensionOf(dispatch.getX(), 0),
                             /*divided=*/dimensionOf(dispatch.getPlaces(), 1) > 1)};
  }
};

} // namespace

void registerGatherStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::EmbeddingOp::attachInterface<EmbeddingSteps>(*context);
    graph::DispatchOp::attachInterface<DispatchSteps>(*context);
  });
}

} // namespace ztc
