// Products of fp8 codes.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct ScaledMatmulSteps : StepSourceOpInterface::ExternalModel<ScaledMatmulSteps, graph::ScaledMatmulOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto matmul = cast<graph::ScaledMatmulOp>(op);
    StepHead head = emitter.describe(op, "matmul", "matrix product of fp8 codes: library");
    SmallVector<Attribute> slots;
    for (Value operand : {matmul.getA(), matmul.getB(), matmul.getScaleA(), matmul.getScaleB()})
      slots.push_back(emitter.operand(operand, Access::Read));
    slots.push_back(emitter.result(op->getResult(0)));
    slots.push_back(emitter.scratch(op, 0));
    auto gemm = emitter.begin<plan_ir::ScaledGemmOp>(head, slots);
    gemm.m = emitter.number(dimensionOf(matmul.getA(), 0));
    gemm.n = emitter.number(dimensionOf(matmul.getB(), 0));
    gemm.k = emitter.number(dimensionOf(matmul.getA(), 1));
    gemm.type_a = emitter.elementType(matmul.getA());
    gemm.type_b = emitter.elementType(matmul.getB());
    gemm.type_c = emitter.elementType(matmul.getY());
    gemm.accumulate = emitter.modeOf(op->getResult(0));
    return emitter.create<plan_ir::ScaledGemmOp>(op, gemm);
  }
};

} // namespace

void registerScaledGemmStep(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::ScaledMatmulOp::attachInterface<ScaledMatmulSteps>(*context);
  });
}

} // namespace ztc
