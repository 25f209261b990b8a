// Products of rows that belong to groups, and the gradients of the groups' matrices.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Experts.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// The record of a step with factors `a` and `b`; what is left to say is its shape.
template <typename Op> auto beginGroupedGemm(Op op, Value a, Value b, StepEmitter &emitter) {
  StepHead head = emitter.describe(op, "grouped matmul", "products of groups of rows: library");
  SmallVector<Attribute> slots{emitter.operand(a, Access::Read), emitter.operand(b, Access::Read),
                               emitter.operand(op.getStarts(), Access::Read), emitter.result(op->getResult(0))};
  if (op->hasAttr(plan_ir::kScratch))
    slots.push_back(emitter.scratch(op, 0));
  auto gemm = emitter.begin<plan_ir::GroupedGemmOp>(head, slots);
  gemm.rows = emitter.number(dimensionOf(a, 0));
  gemm.k = emitter.number(dimensionOf(a, 1));
  gemm.groups = emitter.number(elementsOf(op.getStarts()) - 1);
  gemm.type_a = emitter.elementType(a);
  gemm.type_c = emitter.elementType(op.getY());
  gemm.accumulate = emitter.modeOf(op->getResult(0));
  gemm.gpu_kernels = emitter.gpuKernels(op);
  return gemm;
}

/// The kernels of a step with factors `a` and `b`: of `outer` both have the group's rows, and where they are narrow
/// there is a kernel for results of f32 and one for those of their type. Which results a step writes is decided later
/// (RoundInProducts).
template <typename Op>
SmallVector<KernelDescription> gpuKernelsOf(Op op, Value a, int64_t n, bool transposeB, bool outer,
                                            KernelModule &kernels) {
  GroupedGemmForm form;
  form.type = getElementTypeOrSelf(a.getType());
  form.result = getElementTypeOrSelf(op.getY().getType());
  form.transposeB = transposeB;
  form.outer = outer;
  form.isWhole = n % 8 == 0 && dimensionOf(a, 1) % 8 == 0;
  if (!outer || form.type.isF32())
    return {kernels.addGpuGroupedGemm(form)};
  SmallVector<KernelDescription> both;
  for (Type result : {Type(Float32Type::get(op->getContext())), form.type}) {
    form.result = result;
    both.push_back(kernels.addGpuGroupedGemm(form));
  }
  return both;
}

struct GroupedMatmulSteps : StepSourceOpInterface::ExternalModel<GroupedMatmulSteps, graph::GroupedMatmulOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto product = cast<graph::GroupedMatmulOp>(op);
    auto gemm = beginGroupedGemm(product, product.getX(), product.getW(), emitter);
    gemm.n = emitter.number(dimensionOf(product.getY(), 1));
    gemm.transpose_b = emitter.flag(product.getTransposeB());
    return emitter.create<plan_ir::GroupedGemmOp>(op, gemm);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto product = cast<graph::GroupedMatmulOp>(op);
    return gpuKernelsOf(product, product.getX(), dimensionOf(product.getY(), 1), product.getTransposeB(),
                        /*outer=*/false, kernels);
  }
};

struct GroupedOuterSteps : StepSourceOpInterface::ExternalModel<GroupedOuterSteps, graph::GroupedOuterOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto outer = cast<graph::GroupedOuterOp>(op);
    auto gemm = beginGroupedGemm(outer, outer.getA(), outer.getB(), emitter);
    gemm.n = emitter.number(dimensionOf(outer.getB(), 1));
    gemm.outer = emitter.flag(true);
    return emitter.create<plan_ir::GroupedGemmOp>(op, gemm);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto outer = cast<graph::GroupedOuterOp>(op);
    return gpuKernelsOf(outer, outer.getA(), dimensionOf(outer.getB(), 1), /*transposeB=*/false, /*outer=*/true,
                        kernels);
  }
};

} // namespace

void registerGroupedGemmStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::GroupedMatmulOp::attachInterface<GroupedMatmulSteps>(*context);
    graph::GroupedOuterOp::attachInterface<GroupedOuterSteps>(*context);
  });
}

} // namespace ztc
