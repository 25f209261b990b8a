// Matrix products, and those with a sum.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// What is added to each row of the product; null: nothing.
template <typename Op> Value biasOf(Op matmul) {
  if constexpr (std::is_same_v<Op, graph::MatmulOp>)
    return {};
  else
    return matmul.getBias();
}

template <typename Op> struct MatmulSteps : StepSourceOpInterface::ExternalModel<MatmulSteps<Op>, Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto matmul = cast<Op>(op);
    auto a = cast<RankedTensorType>(matmul.getA().getType()), b = cast<RankedTensorType>(matmul.getB().getType());
    auto y = cast<RankedTensorType>(matmul.getY().getType());
    unsigned rank = y.getRank();
    int64_t m = y.getDimSize(rank - 2), n = y.getDimSize(rank - 1),
            k = a.getDimSize(matmul.getTransposeA() ? rank - 2 : rank - 1);
    int64_t batch = 1;
    for (unsigned i = 0; i + 2 < rank; ++i)
      batch *= y.getDimSize(i);
    auto stride = [&](RankedTensorType type) {
      return emitter.number(batch > 1 ? type.getDimSize(rank - 2) * type.getDimSize(rank - 1) : 0);
    };
    StepHead head = emitter.describe(op, "matmul", "matrix product: library");
    SmallVector<Attribute> slots{emitter.operand(matmul.getA(), Access::Read),
                                 emitter.operand(matmul.getB(), Access::Read), emitter.result(op->getResult(0))};
    if (op->hasAttr(plan_ir::kScratch))
      slots.push_back(emitter.scratch(op, 0));
    if constexpr (std::is_same_v<Op, graph::MatmulAddOp>)
      slots.push_back(emitter.operand(matmul.getC(), Access::Read));
    const Value bias = biasOf(matmul);
    if (bias)
      slots.push_back(emitter.operand(bias, Access::Read));
    constexpr bool kGelu = std::is_same_v<Op, graph::MatmulGeluOp>;
    if (kGelu && op->getNumResults() > 1)
      slots.push_back(emitter.result(op->getResult(1)));
    auto gemm = emitter.begin<plan_ir::GemmOp>(head, slots);
    gemm.m = emitter.number(m);
    gemm.n = emitter.number(n);
    gemm.k = emitter.number(k);
    gemm.lda = emitter.number(a.getDimSize(rank - 1));
    gemm.ldb = emitter.number(b.getDimSize(rank - 1));
    gemm.ldc = emitter.number(n);
    gemm.transpose_a = emitter.flag(matmul.getTransposeA());
    gemm.transpose_b = emitter.flag(matmul.getTransposeB());
    gemm.batch = emitter.number(batch);
    gemm.stride_a = stride(a);
    gemm.stride_b = stride(b);
    gemm.stride_c = stride(y);
    gemm.accumulate = emitter.modeOf(op->getResult(0));
    gemm.bias = emitter.flag(bias != nullptr);
    gemm.gelu = emitter.flag(kGelu);
    gemm.type_a = emitter.elementType(matmul.getA());
    gemm.type_c = emitter.elementType(matmul.getY());
    return emitter.create<plan_ir::GemmOp>(op, gemm);
  }
};

} // namespace

void registerGemmStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::MatmulOp::attachInterface<MatmulSteps<graph::MatmulOp>>(*context);
    graph::MatmulAddOp::attachInterface<MatmulSteps<graph::MatmulAddOp>>(*context);
    graph::MatmulBiasOp::attachInterface<MatmulSteps<graph::MatmulBiasOp>>(*context);
    graph::MatmulGeluOp::attachInterface<MatmulSteps<graph::MatmulGeluOp>>(*context);
  });
}

} // namespace ztc
