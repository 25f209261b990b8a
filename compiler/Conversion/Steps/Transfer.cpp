// Checkpoint, export and gradient dumps: planned, never executed.
#include "compiler/Conversion/StepRoles.h"
#include "compiler/Conversion/Steps/Steps.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;

void emitTransfer(ModuleOp module, OpBuilder &builder) {
  auto staging = module.lookupSymbol<plan_ir::SlotOp>("staging");
  if (!staging)
    return;
  auto program = plan_ir::ProgramOp::create(builder, module.getLoc(), builder.getStringAttr("transfer"));
  SmallVector<Attribute> slots;
  auto add = [&](FlatSymbolRefAttr slot, Access access) {
    slots.push_back(plan_ir::OperandAttr::get(builder.getContext(), access, slot, 0, 0, false));
  };
  add(FlatSymbolRefAttr::get(staging.getSymNameAttr()), Access::ReadWrite);
  for (auto bucket : module.getOps<plan_ir::BucketOp>())
    if (FlatSymbolRefAttr gradient = bucket.getGradientSlotAttr())
      add(gradient, Access::Read);
  OpBuilder steps = OpBuilder::atBlockEnd(&program.getBody().emplaceBlock());
  plan_ir::TransferOp::Properties step;
  step.label = steps.getStringAttr("transfer");
  step.slots = steps.getArrayAttr(slots);
  step.layer = steps.getI64IntegerAttr(-1);
  step.stream = steps.getI64IntegerAttr(0);
  step.reason = steps.getStringAttr("checkpoint, export and gradient dumps go through one buffer");
  step.flops = steps.getI64IntegerAttr(0);
  plan_ir::TransferOp::create(steps, module.getLoc(), TypeRange(), ValueRange(), step);
}

bool isTransfer(Operation *step) {
  return isa<plan_ir::TransferOp>(step);
}

/// No op becomes one: it stands in a program of its own.
void registerTransferStep(DialectRegistry &) {}

} // namespace ztc
