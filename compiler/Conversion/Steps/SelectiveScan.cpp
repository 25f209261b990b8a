// Selective scans and their cotangents.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Scan.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

constexpr llvm::StringLiteral kKernelField = "scan_kernel";

template <typename OpTy> struct ScanSteps : StepSourceOpInterface::ExternalModel<ScanSteps<OpTy>, OpTy> {
  static constexpr bool isGrad = std::is_same_v<OpTy, graph::SelectiveScanGradOp>;

  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto source = cast<OpTy>(op);
    Value starts = source.getDocumentStarts();
    SmallVector<Attribute> slots;
    for (Value value : op->getOperands().drop_back(starts ? 1 : 0))
      slots.push_back(emitter.operand(value, Access::Read));
    for (OpResult value : op->getResults())
      slots.push_back(emitter.result(value));
    if (isGrad)
      slots.push_back(emitter.scratch(op, 0));
    if (starts)
      slots.push_back(emitter.operand(starts, Access::Read));
    StepHead head = emitter.describe(op, isGrad ? "selective_scan_grad" : "selective_scan",
                                     "channel by channel, position by position: generated loops");
    auto scan = emitter.template begin<plan_ir::SelectiveScanOp>(head, slots);
    scan.batch = emitter.number(dimensionOf(source.getV(), 0));
    scan.positions = emitter.number(dimensionOf(source.getV(), 1));
    scan.channels = emitter.number(dimensionOf(source.getV(), 2));
    scan.states = emitter.number(dimensionOf(source.getRate(), 0));
    scan.chunk = source.getChunkAttr();
    scan.grad = emitter.flag(isGrad);
    scan.packed = emitter.flag(bool(starts));
    scan.scan_kernel = emitter.serviceKernel(op, kKernelField);
    scan.gpu_kernels = emitter.gpuKernels(op);
    return emitter.template create<plan_ir::SelectiveScanOp>(op, scan);
  }
  SmallVector<ServiceKernel> getHostKernels(Operation *op, KernelModule &kernels) const {
    const bool packed = bool(cast<OpTy>(op).getDocumentStarts());
    return {{kKernelField, isGrad ? kernels.addSelectiveScanGrad(packed) : kernels.addSelectiveScan(packed)}};
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto source = cast<OpTy>(op);
    return SmallVector<KernelDescription>{
        kernels.addGpuSelectiveScan(isGrad, dimensionOf(source.getRate(), 0), bool(source.getDocumentStarts()))};
  }
};

} // namespace

void registerSelectiveScanStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::SelectiveScanOp::attachInterface<ScanSteps<graph::SelectiveScanOp>>(*context);
    graph::SelectiveScanGradOp::attachInterface<ScanSteps<graph::SelectiveScanGradOp>>(*context);
  });
}

} // namespace ztc
