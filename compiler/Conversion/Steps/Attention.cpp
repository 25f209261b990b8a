// Attention and its cotangents.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/CudnnAttention.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// Attention on a GPU keeps a head's sums in registers.
template <typename OpTy> FailureOr<SmallVector<KernelDescription>> gpuAttention(OpTy op, KernelModule &kernels) {
  auto query = cast<RankedTensorType>(op.getQ().getType());
  const int64_t width = query.getShape().back();
  if (width > kMaxGpuHeadDim)
    return op.emitOpError("there is no attention kernel for a GPU with heads of ")
               << width << " elements, the most are " << kMaxGpuHeadDim
               << "; compile for the host alone (--target=host)",
           failure();
  const AttentionForm form{width,
                           op.getCausal(),
                           op.getCausal() && op.getWindow() != 0,
                           query.getElementType(),
                           bool(op.getDocumentStarts()),
                           !op.getSoftcap().isZero()};
  auto all = llvm::to_vector(kernels.addGpuAttention(form, std::is_same_v<OpTy, graph::AttentionGradOp>));
  if (hasDocumentTable(!form.type.isF32(), uint64_t(width), {form.packed, form.softcapped}))
    all.push_back(kernels.addGpuDocumentTable());
  return all;
}

LogicalResult emitAttention(Operation *op, StepEmitter &emitter) {
  auto forward = dyn_cast<graph::AttentionOp>(op);
  auto grad = dyn_cast<graph::AttentionGradOp>(op);
  Value documentStarts = grad ? grad.getDocumentStarts() : forward.getDocumentStarts();
  SmallVector<Attribute> slots;
  for (Value value : op->getOperands().drop_back(documentStarts ? 1 : 0))
    slots.push_back(emitter.operand(value, Access::Read));
  for (OpResult value : op->getResults())
    slots.push_back(emitter.result(value));
  // Grad operands: q, k, v, out, lse, dout, dq, dk, dv, scratch; the forward form: q, k, v, out, lse, scratch. Of
  // packed rows document_starts comes last.
  unsigned used = 0;
  if (forward && !forward.getLse())
    slots.push_back(emitter.scratch(op, used++));
  slots.push_back(emitter.scratch(op, used));
  if (documentStarts)
    slots.push_back(emitter.operand(documentStarts, Access::Read));
  Value q = op->getOperand(0), k = op->getOperand(1);
  StepHead head = emitter.describe(op, grad ? "attention_grad" : "attention",
                                   "blocked attention: library products, generated rows");
  auto attention = emitter.begin<plan_ir::AttentionOp>(head, slots);
  attention.batch = emitter.number(dimensionOf(q, 0));
  attention.seq = emitter.number(dimensionOf(q, 1));
  attention.heads = emitter.number(dimensionOf(q, 2));
  attention.kv_heads = emitter.number(dimensionOf(k, 2));
  attention.head_dim = emitter.number(dimensionOf(q, 3));
  attention.scale = grad ? grad.getScaleAttr() : forward.getScaleAttr();
  attention.softcap = grad ? grad.getSoftcapAttr() : forward.getSoftcapAttr();
  attention.causal = emitter.flag(grad ? grad.getCausal() : forward.getCausal());
  attention.window = emitter.number(grad ? grad.getWindow() : forward.getWindow());
  attention.block = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
  attention.softmax_kernel = emitter.serviceKernel(op, "softmax_kernel");
  attention.softmax_grad_kernel = emitter.serviceKernel(op, "softmax_grad_kernel");
  attention.row_dot_kernel = emitter.serviceKernel(op, "row_dot_kernel");
  attention.grad = emitter.flag(bool(grad));
  attention.packed = emitter.flag(bool(documentStarts));
  attention.type = emitter.elementType(q);
  attention.gpu_kernels = emitter.gpuKernels(op);
  return emitter.create<plan_ir::AttentionOp>(op, attention);
}

struct AttentionSteps : StepSourceOpInterface::ExternalModel<AttentionSteps, graph::AttentionOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const { return emitAttention(op, emitter); }
  SmallVector<ServiceKernel> getHostKernels(Operation *op, KernelModule &kernels) const {
    auto attention = cast<graph::AttentionOp>(op);
    return {{"softmax_kernel",
             kernels.addAttentionSoftmax(attention.getCausal(), getElementTypeOrSelf(attention.getQ().getType()),
                                         !attention.getSoftcap().isZero())}};
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return gpuAttention(cast<graph::AttentionOp>(op), kernels);
  }
};

struct AttentionGradSteps : StepSourceOpInterface::ExternalModel<AttentionGradSteps, graph::AttentionGradOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const { return emitAttention(op, emitter); }
  SmallVector<ServiceKernel> getHostKernels(Operation *op, KernelModule &kernels) const {
    auto grad = cast<graph::AttentionGradOp>(op);
    Type type = getElementTypeOrSelf(grad.getQ().getType());
    const double scale = grad.getScale().convertToDouble();
    const bool softcapped = !grad.getSoftcap().isZero();
    return {{"softmax_kernel", kernels.addAttentionSoftmax(grad.getCausal(), type, softcapped)},
            {"softmax_grad_kernel", kernels.addAttentionSoftmaxGrad(scale, grad.getCausal(), type, softcapped)},
            {"row_dot_kernel", kernels.addRowDot()}};
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return gpuAttention(cast<graph::AttentionGradOp>(op), kernels);
  }
};

} // namespace

void registerAttentionStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::AttentionOp::attachInterface<AttentionSteps>(*context);
    graph::AttentionGradOp::attachInterface<AttentionGradSteps>(*context);
  });
}

} // namespace ztc
