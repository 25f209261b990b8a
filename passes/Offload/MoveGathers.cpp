#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "passes/Offload/SlotUses.h"

#define DEBUG_TYPE "ztc-move-gathers"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MOVEGATHERS
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;

class GatherMover {
public:
  GatherMover(ModuleOp module, OpBuilder &builder, MoveWriter &writer)
      : builder(builder), writer(writer), slots(slotsByName(module)) {}

  void run(plan_ir::ProgramOp program) {
    Operation *before = nullptr; ///< where the gather before begins
    for (Operation &op : llvm::make_early_inc_range(program.getBody().front())) {
      auto gather = dyn_cast<plan_ir::CollectiveOp>(op);
      if (!gather || gather.getKind() != plan_ir::CollectiveKind::AllGather)
        continue;
      Operation *start = startOfCollective(gather);
      auto shard = cast<plan_ir::OperandAttr>(gather.getSlots()[0]);
      auto slot = slots.lookup(shard.getSlot().getAttr());
      if (slot && slot.getSpace() != plan_ir::Space::Device)
        move(gather, start, before && !usesBetween(before, start, fullOf(gather)) ? before : start);
      before = start;
    }
  }

private:
  static FlatSymbolRefAttr fullOf(plan_ir::CollectiveOp gather) {
    return cast<plan_ir::OperandAttr>(gather.getSlots()[1]).getSlot();
  }

  static bool names(plan_ir::WaitOp wait, FlatSymbolRefAttr slot) {
    return llvm::any_of(wait.getSlots().getAsRange<plan_ir::OperandAttr>(),
                        [&](plan_ir::OperandAttr operand) { return operand.getSlot() == slot; });
  }

  /// Whether a step from `first` on, before `end`, touches a slot.
  static bool usesBetween(Operation *first, Operation *end, FlatSymbolRefAttr slot) {
    for (Operation *op = first; op != end; op = op->getNextNode())
      if (auto step = dyn_cast<plan_ir::StepOpInterface>(op))
        for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
          if (operand.getSlot() == slot)
            return true;
    return false;
  }

  void move(plan_ir::CollectiveOp gather, Operation *start, Operation *early) {
    MLIRContext *context = gather.getContext();
    const FlatSymbolRefAttr shard = cast<plan_ir::OperandAttr>(gather.getSlots()[0]).getSlot(), full = fullOf(gather);
    const int64_t layer = int64_t(gather.getLayer());
    const std::string label = gather.getLabel().str() + " move";
    builder.setInsertionPoint(early);
    writer.joinComputation(layer, label);
    writer.move(layer, label + " in",
                {MoveWriter::operand(context, Access::Read, shard),
                 MoveWriter::operand(context, Access::Write, full, /*ownShard=*/true)});
    const int64_t there = writer.record(kMoveStream, layer, label + " end");
    builder.setInsertionPoint(start);
    writer.wait(0, there, layer, label + " done", {MoveWriter::operand(context, Access::Write, full)});
    gather.setSlotsAttr(builder.getArrayAttr({MoveWriter::operand(context, Access::Read, full, /*ownShard=*/true),
                                              MoveWriter::operand(context, Access::Write, full)}));
    // At one rank it has had the shard's storage, which is not on the device.
    if (auto slot = slots.lookup(full.getAttr()))
      slot.removeSameAsAtOneRankAttr();
    // Waits for the gather name its operands.
    for (Operation *op = gather->getNextNode(); op; op = op->getNextNode())
      if (auto wait = dyn_cast<plan_ir::WaitOp>(op); wait && names(wait, shard))
        replaceSlot(wait, shard.getAttr(), {});
  }

  OpBuilder &builder;
  MoveWriter &writer;
  SlotsByName slots;
};

struct MoveGathers : impl::MoveGathersBase<MoveGathers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(&getContext());
    MoveWriter writer(module, builder);
    GatherMover mover(module, builder, writer);
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      mover.run(program);
  }
};
} // namespace
} // namespace ztc
