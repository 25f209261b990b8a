#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/Remarks.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "passes/Offload/SlotUses.h"
#include "llvm/ADT/DenseMap.h"

#define DEBUG_TYPE "ztc-place-below"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PLACEBELOW
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Space;

/// Where a slot is an operand.
struct Use {
  plan_ir::StepOpInterface step;
  plan_ir::OperandAttr operand;
};

class Placer {
public:
  Placer(ModuleOp module, const OffloadChoice &choice)
      : module(module), choice(choice), updating(updatingProgram(module)), slots(slotsByName(module)) {
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      for (Operation &op : program.getBody().front())
        if (auto step = dyn_cast<plan_ir::StepOpInterface>(op))
          for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
            uses[operand.getSlot().getAttr()].push_back({step, operand});
  }

  void run() {
    SmallVector<SmallVector<FlatSymbolRefAttr>> states, masters, parameters;
    for (auto bucket : module.getOps<plan_ir::BucketOp>()) {
      SmallVector<FlatSymbolRefAttr> kept;
      for (auto state : bucket.getStates().getAsRange<plan_ir::StateAttr>())
        kept.push_back(state.getSlot());
      if (!kept.empty())
        states.push_back(std::move(kept));
      if (FlatSymbolRefAttr master = bucket.getMasterSlotAttr())
        masters.push_back({master});
    }
    for (bool trainable : {false, true})
      for (auto bucket : module.getOps<plan_ir::BucketOp>())
        if (bucket.getTrainable() == trainable)
          parameters.push_back(isWhole(bucket) ? SmallVector<FlatSymbolRefAttr>()
                                               : SmallVector<FlatSymbolRefAttr>{bucket.getParameterSlotAttr()});
    place(states, choice.states);
    place(masters, choice.masters);
    place(parameters, choice.parameters);
  }

private:
  /// Parameters that a rank keeps whole are not gathered: ztc-bring-parameters places them, and brings them where they
  /// are needed.
  bool isWhole(plan_ir::BucketOp bucket) {
    plan_ir::SlotOp slot = slots.lookup(bucket.getParameterSlotAttr().getAttr());
    return slot && slot.getSizeKind() == plan_ir::SizeKind::Full;
  }

  void place(ArrayRef<SmallVector<FlatSymbolRefAttr>> groups, OffloadChoice::Share share) {
    for (auto [index, group] : llvm::enumerate(groups)) {
      const Space space = spaceOf(share, index);
      if (space == Space::Device)
        return;
      for (FlatSymbolRefAttr name : group)
        placeSlot(slots.lookup(name.getAttr()), space);
    }
  }

  void placeSlot(plan_ir::SlotOp slot, Space space) {
    if (!slot || slot.getSpace() != Space::Device)
      return;
    if (std::string why = obstacle(slot); !why.empty()) {
      remark::missed(slot.getLoc(), remark::RemarkOpts::name("StaysOnDevice").category(DEBUG_TYPE))
          << slot.getSymName() << " stays on the device: " << why;
      return;
    }
    slot.setSpace(space);
  }

  /// What keeps a slot on the device; empty: nothing.
  std::string obstacle(plan_ir::SlotOp slot) {
    unsigned launches = 0;
    for (Use use : uses.lookup(slot.getSymNameAttr())) {
      auto program = cast<plan_ir::ProgramOp>(use.step->getParentOp());
      const std::string where = program.getSymName().str() + " '" + use.step.getStepLabel().str() + "'";
      if (use.operand.getOffset() || use.operand.getBytes())
        return where + " works on a part of it";
      if (isa<plan_ir::WaitOp>(use.step)) // it names what a gather works on
        continue;
      // What is gathered is the whole slot of another name; a slot that holds all of the bucket is never gathered.
      if (isa<plan_ir::CollectiveOp>(use.step) && use.operand.getAccess() == plan_ir::Access::Read &&
          !use.operand.getOwnShard())
        continue;
      auto launch = dyn_cast<plan_ir::LaunchOp>(*use.step);
      if (!launch || !launch.getBucketAttr() || launch.getExtent() || program != updating)
        return where + " works on it";
      if (lastLaunch[slot.getSymNameAttr()] != launch && launches++)
        return "several steps of " + program.getSymName().str() + " work on it";
      lastLaunch[slot.getSymNameAttr()] = launch;
    }
    return {};
  }

  ModuleOp module;
  const OffloadChoice choice;
  plan_ir::ProgramOp updating;
  const SlotsByName slots;
  llvm::DenseMap<StringAttr, SmallVector<Use>> uses;
  llvm::DenseMap<StringAttr, Operation *> lastLaunch;
};

struct PlaceBelow : impl::PlaceBelowBase<PlaceBelow> {
  using PlaceBelowBase::PlaceBelowBase;
  void runOnOperation() override {
    FailureOr<OffloadChoice> parsed = readChoice(getOperation(), choice, "states=HOST+DISK/masters=...");
    if (failed(parsed))
      return signalPassFailure();
    Placer(getOperation(), *parsed).run();
  }
};
} // namespace
} // namespace ztc
