// Operands of products in fp8, in front of what reads them.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct QuantizeFp8Steps : StepSourceOpInterface::ExternalModel<QuantizeFp8Steps, graph::QuantizeFp8Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto quantize = cast<graph::QuantizeFp8Op>(op);
    StepHead head = emitter.describe(op, "quantize", "fp8 codes of a product's operand");
    SmallVector<Attribute> slots{emitter.operand(quantize.getX(), Access::Read), emitter.result(op->getResult(0)),
                                 emitter.scratch(op, 0)};
    for (OpResult codes : op->getResults().drop_front())
      slots.push_back(emitter.result(codes));
    if (Value amax = quantize.getAmax())
      slots.push_back(emitter.operand(amax, Access::Read));
    auto step = emitter.begin<plan_ir::QuantizeFp8Op>(head, slots);
    step.rows = emitter.number(dimensionOf(quantize.getX(), 0));
    step.columns = emitter.number(dimensionOf(quantize.getX(), 1));
    step.from = emitter.elementType(quantize.getX());
    step.to = emitter.elementType(quantize.getCodes()[0]);
    step.by_rows = emitter.flag(quantize.getByRows());
    step.by_columns = emitter.flag(quantize.getByColumns());
    step.accumulate = emitter.overwrite();
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::QuantizeFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto quantize = cast<graph::QuantizeFp8Op>(op);
    const Type from = getElementTypeOrSelf(quantize.getX().getType());
    const bool isE4m3 = isa<Float8E4M3FNType>(getElementTypeOrSelf(quantize.getCodes()[0].getType()));
    return SmallVector<KernelDescription>{
        kernels.addGpuFp8Maxima(from),
        kernels.addGpuQuantizeFp8(isE4m3, quantize.getByRows(), quantize.getByColumns(), from)};
  }
};

/// With a scale that is known the absolute maximum is a result.
struct EncodeFp8Steps : StepSourceOpInterface::ExternalModel<EncodeFp8Steps, graph::EncodeFp8Op> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto encode = cast<graph::EncodeFp8Op>(op);
    StepHead head = emitter.describe(op, "quantize", "fp8 codes of a product's operand");
    SmallVector<Attribute> slots{emitter.operand(encode.getX(), Access::Read),
                                 emitter.operand(encode.getScale(), Access::Read), emitter.scratch(op, 0)};
    for (OpResult codes : op->getResults().drop_front())
      slots.push_back(emitter.result(codes));
    slots.push_back(emitter.result(op->getResult(0)));
    auto step = emitter.begin<plan_ir::QuantizeFp8Op>(head, slots);
    step.rows = emitter.number(dimensionOf(encode.getX(), 0));
    step.columns = emitter.number(dimensionOf(encode.getX(), 1));
    step.from = emitter.elementType(encode.getX());
    step.to = emitter.elementType(encode.getCodes()[0]);
    step.by_rows = emitter.flag(encode.getByRows());
    step.by_columns = emitter.flag(encode.getByColumns());
    step.known_scale = emitter.flag(true);
    step.accumulate = emitter.modeOf(op->getResult(0));
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::QuantizeFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    auto encode = cast<graph::EncodeFp8Op>(op);
    const bool isE4m3 = isa<Float8E4M3FNType>(getElementTypeOrSelf(encode.getCodes()[0].getType()));
    return SmallVector<KernelDescription>{kernels.addGpuEncodeFp8(isE4m3, encode.getByRows(), encode.getByColumns(),
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
