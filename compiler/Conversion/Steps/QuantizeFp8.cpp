// Operands of products in fp8, in front of what reads them.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

/// Writes what both kinds of codes have in common. `slots`: of the matrix, its scale, the workspace, the codes and what
/// is particular to the kind.
template <typename Op>
plan_ir::QuantizeFp8Op::Properties codesStep(Op op, StepEmitter &emitter, ArrayRef<Attribute> slots) {
  auto step = emitter.begin<plan_ir::QuantizeFp8Op>(
      emitter.describe(op, "quantize", "fp8 codes of a product's operand"), slots);
  step.rows = emitter.number(dimensionOf(op.getX(), 0));
  step.columns = emitter.number(dimensionOf(op.getX(), 1));
  step.from = emitter.elementType(op.getX());
  step.to = emitter.elementType(op.getCodes()[0]);
  step.by_rows = emitter.flag(op.getByRows());
  step.by_columns = emitter.flag(op.getByColumns());
  step.gpu_kernels = emitter.gpuKernels(op);
  return step;
}

bool isE4m3(ValueRange codes) {
  return isa<Float8E4M3FNType>(getElementTypeOrSelf(codes[0].getType()));
}

struct QuantizeFp8Steps : StepSourceOpInterface::ExternalModel<QuantizeFp8Steps, graph::QuantizeFp8Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto quantize = cast<graph::QuantizeFp8Op>(op);
    SmallVector<Attribute> slots{emitter.operand(quantize.getX(), Access::Read), emitter.result(op->getResult(0)),
                                 emitter.scratch(op, 0)};
    for (OpResult codes : op->getResults().drop_front())
      slots.push_back(emitter.result(codes));
    if (Value amax = quantize.getAmax())
      slots.push_back(emitter.operand(amax, Access::Read));
    auto step = codesStep(quantize, emitter, slots);
    step.accumulate = emitter.overwrite();
    return emitter.create<plan_ir::QuantizeFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto quantize = cast<graph::QuantizeFp8Op>(op);
    const Type from = getElementTypeOrSelf(quantize.getX().getType());
    return SmallVector<KernelDescription>{
        kernels.addGpuFp8Maxima(from),
        kernels.addGpuQuantizeFp8(isE4m3(quantize.getCodes()), quantize.getByRows(), quantize.getByColumns(), from)};
  }
};

/// With a scale that is known the absolute maximum is a result.
struct EncodeFp8Steps : StepSourceOpInterface::ExternalModel<EncodeFp8Steps, graph::EncodeFp8Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto encode = cast<graph::EncodeFp8Op>(op);
    SmallVector<Attribute> slots{emitter.operand(encode.getX(), Access::Read),
                                 emitter.operand(encode.getScale(), Access::Read), emitter.scratch(op, 0)};
    for (OpResult codes : op->getResults().drop_front())
      slots.push_back(emitter.result(codes));
    slots.push_back(emitter.result(op->getResult(0)));
    auto step = codesStep(encode, emitter, slots);
    step.known_scale = emitter.flag(true);
    step.accumulate = emitter.modeOf(op->getResult(0));
    return emitter.create<plan_ir::QuantizeFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto encode = cast<graph::EncodeFp8Op>(op);
    return SmallVector<KernelDescription>{kernels.addGpuEncodeFp8(isE4m3(encode.getCodes()), encode.getByRows(),
                                                                  encode.getByColumns(),
                                                                  getElementTypeOrSelf(encode.getX().getType())),
                                          kernels.addGpuFp8Largest()};
  }
};

} // namespace

void registerQuantizeFp8Step(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, graph::GraphDialect *) {
    graph::QuantizeFp8Op::attachInterface<QuantizeFp8Steps>(*context);
    graph::EncodeFp8Op::attachInterface<EncodeFp8Steps>(*context);
  });
}

} // namespace ztc
