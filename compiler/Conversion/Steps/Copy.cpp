// A copy that could not be avoided.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
namespace {

struct CopySteps : StepSourceOpInterface::ExternalModel<CopySteps, dist::CopyOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    StepHead head = emitter.describe(op, "copy", "a copy was unavoidable");
    auto copy = emitter.begin<plan_ir::CopyOp>(
        head, {emitter.operand(op->getOperand(0), Access::Read), emitter.operand(op->getResult(0), Access::Write)});
    copy.bytes = emitter.number(tensorBytes(op->getResult(0).getType()));
    emitter.addRemark(head.label.str() + ": a copy was unavoidable");
    return emitter.create<plan_ir::CopyOp>(op, copy);
  }
};

} // namespace

void registerCopyStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, dist::DistDialect *) { dist::CopyOp::attachInterface<CopySteps>(*context); });
}

} // namespace ztc
