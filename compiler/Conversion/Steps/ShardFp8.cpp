// What a rank does with its shards of weights that are gathered as fp8 codes.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Fp8.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct ShardAmaxSteps : StepSourceOpInterface::ExternalModel<ShardAmaxSteps, dist::ShardAmaxOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto amax = cast<dist::ShardAmaxOp>(op);
    StepHead head = emitter.describe(op, "amax", "the largest magnitudes of weights that are gathered as fp8 codes");
    SmallVector<Attribute> slots{emitter.result(op->getResult(0)), emitter.scratch(op, 0)};
    for (Value shard : amax.getShards())
      slots.push_back(emitter.operand(shard, Access::Read));
    auto step = emitter.begin<plan_ir::ShardFp8Op>(head, slots);
    step.ranges = DenseI64ArrayAttr::get(op->getContext(), amax.getRanges());
    step.first = emitter.number(0);
    step.from = emitter.elementType(amax.getShards().front());
    step.to = emitter.elementType(amax.getAmax());
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::ShardFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    return SmallVector<KernelDescription>{
        kernels.addGpuFp8Maxima(getElementTypeOrSelf(cast<dist::ShardAmaxOp>(op).getShards().front())),
        kernels.addGpuFp8Maxima(Float32Type::get(op->getContext()))};
  }
};

struct ShardCodesSteps : StepSourceOpInterface::ExternalModel<ShardCodesSteps, dist::ShardCodesOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto codes = cast<dist::ShardCodesOp>(op);
    StepHead head = emitter.describe(op, "quantize", "the fp8 codes that ranks gather");
    SmallVector<Attribute> slots{emitter.operand(codes.getAmax(), Access::Read), emitter.scratch(op, 0),
                                 emitter.operand(codes.getShard(), Access::Read)};
    for (OpResult result : op->getResults())
      slots.push_back(emitter.result(result));
    SmallVector<int64_t> ranges;
    for (size_t i = 0; i < codes.getRanges().size(); i += 2)
      ranges.append({0, codes.getRanges()[i], codes.getRanges()[i + 1]});
    auto step = emitter.begin<plan_ir::ShardFp8Op>(head, slots);
    step.ranges = DenseI64ArrayAttr::get(op->getContext(), ranges);
    step.first = emitter.number(int64_t(codes.getFirst()));
    step.from = emitter.elementType(codes.getShard());
    step.to = emitter.elementType(codes.getCodes());
    step.gpu_kernels = emitter.gpuKernels(op);
    return emitter.create<plan_ir::ShardFp8Op>(op, step);
  }
  FailureOr<SmallVector<KernelDescription>> getGpuKernels(Operation *op, KernelModule &kernels) const {
    const Type from = getElementTypeOrSelf(cast<dist::ShardCodesOp>(op).getShard());
    return SmallVector<KernelDescription>{
        kernels.addGpuQuantizeFp8(/*isE4m3=*/true, /*byRows=*/true, /*byColumns=*/false, from)};
  }
};

} // namespace

void registerShardFp8Step(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) {
    dist::ShardAmaxOp::attachInterface<ShardAmaxSteps>(*context);
    dist::ShardCodesOp::attachInterface<ShardCodesSteps>(*context);
  });
}

} // namespace ztc
