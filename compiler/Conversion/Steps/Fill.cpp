// Zeros where a bucket has no parameter: the gradient norm and collectives read whole buckets.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct PackSteps : StepSourceOpInterface::ExternalModel<PackSteps, dist::PackOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto pack = cast<dist::PackOp>(op);
    plan_ir::PlaceAttr place = emitter.placeOf(pack.getBucket());
    int64_t width = (getElementTypeOrSelf(pack.getBucket().getType()).getIntOrFloatBitWidth() + 7) / 8, end = 0;
    auto fill = [&](int64_t from, int64_t to) {
      if (from == to)
        return;
      StepHead head = emitter.describe(op, "gap", "a bucket is zero between parameters");
      auto slot = plan_ir::OperandAttr::get(op->getContext(), Access::Write, place.getSlot(),
                                            place.getOffset() + from * width, (to - from) * width, false);
      auto zeros = emitter.begin<plan_ir::FillOp>(head, {slot});
      zeros.value = emitter.number(0);
      (void)emitter.create<plan_ir::FillOp>(op, zeros);
    };
    for (auto [part, offset] : llvm::zip_equal(pack.getParts(), pack.getOffsets())) {
      fill(end, offset);
      end = offset + elementsOf(part);
      Operation *source = part.getDefiningOp();
      auto owned = source ? source->getAttrOfType<StringAttr>(dist::kOwnedParameter) : StringAttr();
      if (!owned)
        continue;
      // What one rank computes is zero on the others: the sum over ranks is what it has.
      fill(offset, end);
      Operation &step = emitter.builder().getInsertionBlock()->back();
      step.setAttr(dist::kOwnedParameter, owned);
      step.setAttr(dist::kUnlessOwner, emitter.builder().getUnitAttr());
    }
    fill(end, emitter.buckets().elements(pack.getBucket().getType()));
    return success();
  }
};

} // namespace

void registerFillStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, dist::DistDialect *) { dist::PackOp::attachInterface<PackSteps>(*context); });
}

} // namespace ztc
