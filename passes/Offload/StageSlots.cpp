#include "compiler/Conversion/StepRoles.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/Remarks.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "passes/Offload/SlotUses.h"
#include "passes/Offload/StepOrder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include <map>

#define DEBUG_TYPE "ztc-stage-slots"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_STAGESLOTS
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;
using plan_ir::SlotClass;
using plan_ir::Space;

/// Steps of one program that follow one another closely, between which a slot stays on the device. With a collective
/// go the steps that begin it, and the wait of the computation for its end.
struct Region {
  plan_ir::SlotOp slot; ///< what they work on: it, or its copy of this region
  SmallVector<Operation *> steps;
  bool isRead = false, isWritten = false;
  bool isReduced = false; ///< a collective is among them

  /// What it begins with.
  Operation *first() const {
    auto collective = dyn_cast<plan_ir::CollectiveOp>(steps.front());
    return collective ? startOfCollective(collective) : steps.front();
  }
};

/// A slot that will lie below, and the steps that use it.
struct StagedSlot {
  plan_ir::SlotOp slot, below;
  std::string label;
  Space space = Space::Host;
  bool accumulates = false; ///< what a micro-step leaves the next one adds to
  bool isCompleted = false; ///< another slot takes what is in it at the end of the last micro-step
  bool isLastOnly = false;  ///< it is written in the last micro-step alone
  SmallVector<Region> regions;
};

class SlotStager {
public:
  SlotStager(ModuleOp module, const OffloadChoice &choice)
      : module(module), choice(choice), builder(module.getContext()), writer(module, builder), uses(slotUses(module)),
        sharers(slotSharers(module)), slots(slotsByName(module)) {
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      if (program.getSymName() == "microstep")
        microstep = program;
  }

  void run() {
    if (!microstep)
      return;
    order = &orderOf(microstep);
    loss = placeOfLoss();
    chooseGradients();
    chooseActivations();
    for (StagedSlot &staged : chosen)
      place(staged);
    // Moves are in one order: what is needed first comes first.
    struct Turn {
      bool isUpdate;
      unsigned place;
      StagedSlot *staged;
      size_t index;
    };
    SmallVector<Turn> turns;
    for (StagedSlot &staged : chosen)
      for (auto [index, region] : llvm::enumerate(staged.regions)) {
        Operation *first = region.steps.front();
        const bool isUpdate = first->getParentOp() != microstep;
        const StepOrder &steps = orderOf(cast<plan_ir::ProgramOp>(first->getParentOp()));
        turns.push_back({isUpdate, steps.placeFrom(first), &staged, index});
      }
    llvm::stable_sort(turns, [](const Turn &a, const Turn &b) {
      return std::tie(a.isUpdate, a.place) < std::tie(b.isUpdate, b.place);
    });
    Operation *before = nullptr; // what the turn before begins with, in the same program
    bool isUpdate = false;
    for (const Turn &turn : turns) {
      before = turn.isUpdate == isUpdate ? before : nullptr;
      isUpdate = turn.isUpdate;
      Operation *begin = turn.staged->regions[turn.index].first();
      moveRegion(*turn.staged, turn.index, before);
      before = begin;
    }
  }

private:
  /// Of a program before moves are put into it.
  const StepOrder &orderOf(plan_ir::ProgramOp program) {
    std::unique_ptr<StepOrder> &known = orders[program];
    if (!known)
      known = std::make_unique<StepOrder>(program);
    return *known;
  }

  // --- what lies below ---

  void chooseGradients() {
    unsigned index = 0;
    for (auto bucket : module.getOps<plan_ir::BucketOp>()) {
      FlatSymbolRefAttr name = bucket.getGradientSlotAttr();
      if (!bucket.getTrainable() || !name)
        continue;
      const Space space = spaceOf(choice.gradients, index++);
      plan_ir::SlotOp slot = slots.lookup(name.getAttr());
      if (space == Space::Device || !slot)
        continue;
      auto sum = slot;
      if (FlatSymbolRefAttr shared = slot.getSameAsIfAccumulatingAttr())
        sum = slots.lookup(shared.getAttr());
      SmallVector<StagedSlot> both(sum != slot ? 2 : 1);
      both[0].slot = sum;
      both[0].accumulates = true;
      both[0].isCompleted = sum != slot;
      both.back().slot = slot;
      both.back().isLastOnly = sum != slot;
      for (StagedSlot &staged : both) {
        staged.label = staged.slot.getSymName().str();
        staged.space = space;
      }
      if (llvm::all_of(both, [&](StagedSlot &staged) { return findRegions(staged); })) {
        llvm::append_range(chosen, both);
        buckets[slot] = bucket;
      }
    }
  }

  void chooseActivations() {
    for (auto [slot, space] : activationsBelow()) {
      StagedSlot staged;
      staged.slot = slot;
      staged.label = slot.getSymName().str();
      staged.space = space;
      if (findRegions(staged) && staged.regions.size() > 1)
        chosen.push_back(std::move(staged));
    }
  }

  /// What the choice names of that which blocks leave for their backward, of some size: a tensor of a block by its
  /// number among the blocks that keep that tensor, any other by the number of the block. The first block's waits
  /// longest.
  SmallVector<std::pair<plan_ir::SlotOp, Space>> activationsBelow() {
    uint64_t largest = 0;
    SmallVector<plan_ir::SlotOp> kept;
    for (auto slot : module.getOps<plan_ir::SlotOp>())
      if (isKeptActivation(slot)) {
        kept.push_back(slot);
        largest = std::max<uint64_t>(largest, slot.getElements() * slot.getElementBytes());
      }
    llvm::erase_if(kept, [&](plan_ir::SlotOp slot) {
      return slot.getElements() * slot.getElementBytes() * kSmallestKeptShare < largest;
    });
    llvm::stable_sort(kept, [](plan_ir::SlotOp a, plan_ir::SlotOp b) { return a.getLayer() < b.getLayer(); });
    SmallVector<std::pair<plan_ir::SlotOp, Space>> below;
    std::map<std::string, size_t> numbers; // of blocks that have come, by tensor
    size_t block = 0;
    for (auto [index, slot] : llvm::enumerate(kept)) {
      if (index > 0 && kept[index - 1].getLayer() != slot.getLayer())
        ++block;
      const std::string name = keptTensorName(slot.getSymName());
      const size_t number = numbers[name]++;
      const auto named = choice.tensors.find(name);
      const Space space =
          named == choice.tensors.end() ? spaceOf(choice.activations, block) : spaceOf(named->second, number);
      if (space != Space::Device)
        below.push_back({slot, space});
    }
    return below;
  }

  bool isKeptActivation(plan_ir::SlotOp slot) {
    if (slot.getSlotClass() != SlotClass::Activations || int64_t(slot.getLayer()) < 0 || slot.getPersistent() ||
        slot.getGpuElements() || slot.getSizeKind() != plan_ir::SizeKind::Constant)
      return false;
    const auto &steps = uses[slot.getSymNameAttr()];
    return !steps.empty() && steps.front()->getParentOp() == microstep && order->contains(steps.front()) &&
           order->contains(steps.back()) && order->placeOf(steps.front()) < loss && order->placeOf(steps.back()) > loss;
  }

  unsigned placeOfLoss() const {
    for (unsigned place = order->size(); place-- > 0;)
      if (isTrainingLoss(order->at(place)))
        return place;
    return order->size();
  }

  // --- when it is on the device ---

  /// False, with a remark, where a step works on it that cannot work on a copy.
  bool findRegions(StagedSlot &staged) {
    const auto stays = [&](const Twine &why) {
      remark::missed(staged.slot.getLoc(), remark::RemarkOpts::name("StaysOnDevice").category(DEBUG_TYPE))
          << staged.slot.getSymName() << " stays on the device: " << why.str();
      return false;
    };
    for (plan_ir::SlotOp sharer : sharers.lookup(staged.slot.getSymNameAttr()))
      if (!staged.isCompleted || sharer.getSlotClass() != SlotClass::Gradients)
        return stays(sharer.getSymName() + " is in the same place");
    if (staged.slot.getSameAsAtOneRankAttr())
      return stays("it is in another slot's place");
    Operation *last = nullptr;
    for (Operation *op : uses[staged.slot.getSymNameAttr()]) {
      if (isTransfer(op)) // it goes where the slot is
        continue;
      auto step = cast<plan_ir::StepOpInterface>(op);
      auto program = cast<plan_ir::ProgramOp>(op->getParentOp());
      const bool isTraining = program == microstep || program.getSymName() == "update";
      // What ranks reduce where it adds up, or gather for an update, is of the computation again where that has waited.
      const bool isCollective = isa<plan_ir::CollectiveOp>(op);
      const bool isEnd = isa<plan_ir::WaitOp>(op) && step.getStepStream() == 0 && last && isReduced(staged.regions);
      if (!isTraining || (step.getStepStream() != 0 && !isCollective) || (isa<plan_ir::WaitOp>(op) && !isEnd) ||
          isa<plan_ir::RecordOp>(op))
        return stays(program.getSymName() + " '" + step.getStepLabel() + "' works on it");
      // What is kept for the backward goes in between, and an update needs a gradient once for its norm and once more.
      bool isNew = !last || last->getParentOp() != op->getParentOp();
      if (!isNew && program == microstep && !staged.accumulates && !staged.isLastOnly)
        isNew = order->placeOf(last) <= loss && order->placeOf(op) > loss;
      else if (!isNew && program != microstep)
        isNew = last->getNextNode() != op && !isReduced(staged.regions);
      if (isNew)
        staged.regions.push_back({});
      Region &region = staged.regions.back();
      region.steps.push_back(op);
      region.isReduced |= isCollective;
      for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
        if (operand.getSlot().getAttr() == staged.slot.getSymNameAttr()) {
          region.isRead |= operand.getAccess() != Access::Write;
          region.isWritten |= operand.getAccess() != Access::Read;
        }
      last = op;
    }
    // The computation has waited for what ranks send.
    for (const Region &region : staged.regions)
      if (isa<plan_ir::CollectiveOp>(region.steps.back()))
        return stays("nothing waits for a collective");
    return !staged.regions.empty();
  }
  static bool isReduced(ArrayRef<Region> regions) { return !regions.empty() && regions.back().isReduced; }

  // --- how it gets there ---

  void place(StagedSlot &staged) {
    builder.setInsertionPointAfter(staged.slot);
    staged.below = copyOf(staged.slot, ".below", "where it lies while nothing works on it");
    staged.below.setPersistent(true);
    staged.below.setSpace(staged.space);
    staged.slot.setAccumulator(false);
    staged.slot.removeSameAsIfAccumulatingAttr();
    for (auto [index, region] : llvm::enumerate(staged.regions)) {
      region.slot = staged.slot;
      if (index > 0) {
        builder.setInsertionPointAfter(staged.slot);
        region.slot = copyOf(staged.slot, ".again" + (index > 1 ? std::to_string(index) : std::string()),
                             "it has come back from below");
        for (Operation *op : region.steps)
          replaceSlot(cast<plan_ir::StepOpInterface>(op), staged.slot.getSymNameAttr(),
                      FlatSymbolRefAttr::get(region.slot));
      }
    }
    if (auto bucket = buckets.lookup(staged.slot))
      bucket.setGradientSlotAttr(FlatSymbolRefAttr::get(staged.below.getSymNameAttr()));
    for (Operation *op : uses[staged.slot.getSymNameAttr()])
      if (isTransfer(op))
        replaceSlot(cast<plan_ir::StepOpInterface>(op), staged.slot.getSymNameAttr(), {});
  }

  plan_ir::SlotOp copyOf(plan_ir::SlotOp slot, const std::string &suffix, StringRef reason) {
    auto copy = cast<plan_ir::SlotOp>(builder.clone(*slot));
    copy.setSymName(slot.getSymName().str() + suffix);
    copy.setReason(reason);
    copy.setAccumulator(false);
    copy.removeSameAsAtOneRankAttr();
    copy.removeSameAsIfAccumulatingAttr();
    return copy;
  }

  Attribute whole(Access access, plan_ir::SlotOp slot) {
    return MoveWriter::operand(builder.getContext(), access, FlatSymbolRefAttr::get(slot.getSymNameAttr()));
  }

  void moveRegion(StagedSlot &staged, size_t index, Operation *before) {
    const Region &region = staged.regions[index];
    auto program = cast<plan_ir::ProgramOp>(region.steps.front()->getParentOp());
    const bool isMicrostep = program == microstep;
    const StepOrder &steps = orderOf(program);
    Operation *const begin = region.first();
    const unsigned first = steps.placeFrom(begin), last = steps.placeUntil(region.steps.back());
    const std::string label =
        staged.label + (index > 0 ? " again" + (index > 1 ? std::to_string(index) : std::string()) : std::string());
    const int64_t layer = cast<plan_ir::StepOpInterface>(region.steps.front()).getStepLayer();
    if (index > 0 || staged.accumulates) {
      // It begins one block ahead, in an update one bucket, but for what has just left.
      unsigned least = isMicrostep && !staged.accumulates ? loss + 1 : 0;
      if (index > 0 && staged.regions[index - 1].steps.front()->getParentOp() == program)
        least = std::max(least, steps.placeUntil(staged.regions[index - 1].steps.back()) + 1);
      Operation *early = begin;
      if (first < steps.size())
        early = steps.at(isMicrostep ? steps.oneBlockBefore(first, std::min(least, first))
                                     : std::min(first, std::max(before ? steps.placeFrom(before) : first, least)));
      builder.setInsertionPoint(early->isBeforeInBlock(begin) ? early : begin);
      writer.joinComputation(layer, label + " in");
      writer.move(layer, label + " in", {whole(Access::Read, staged.below), whole(Access::Write, region.slot)});
      const int64_t there = writer.record(kMoveStream, layer, label + " in end");
      builder.setInsertionPoint(begin);
      writer.wait(0, there, layer, label + " in done", {whole(Access::Write, region.slot)});
    }
    // The next micro-step adds to it; after an update nothing reads it.
    const bool isReadLater = index + 1 < staged.regions.size() || (staged.accumulates && isMicrostep);
    if (!region.isWritten || !isReadLater)
      return;
    builder.setInsertionPointAfter(region.steps.back());
    writer.joinComputation(layer, label + " out");
    writer.move(layer, label + " out", {whole(Access::Read, region.slot), whole(Access::Write, staged.below)});
    const int64_t gone = writer.record(kMoveStream, layer, label + " out end");
    const unsigned until = steps.oneBlockAfter(last);
    if (until < steps.size())
      builder.setInsertionPoint(steps.at(until));
    else
      builder.setInsertionPointToEnd(&program.getBody().front());
    writer.wait(0, gone, layer, label + " out done", {whole(Access::Read, region.slot)});
  }

  ModuleOp module;
  const OffloadChoice choice;
  OpBuilder builder;
  MoveWriter writer;
  plan_ir::ProgramOp microstep;
  llvm::DenseMap<Operation *, std::unique_ptr<StepOrder>> orders; ///< by program
  const StepOrder *order = nullptr;                               ///< of microstep
  unsigned loss = 0;                                              ///< its place in that
  SlotUses uses;
  SlotSharers sharers;
  const SlotsByName slots;                                ///< without copies that are put beside them
  llvm::DenseMap<Operation *, plan_ir::BucketOp> buckets; ///< by its gradient's slot
  SmallVector<StagedSlot> chosen;
};

struct StageSlots : impl::StageSlotsBase<StageSlots> {
  using StageSlotsBase::StageSlotsBase;
  void runOnOperation() override {
    FailureOr<OffloadChoice> parsed =
        readChoice(getOperation(), choice, "gradients=HOST+DISK/activations=HOST+DISK/activations.TENSOR=...");
    if (failed(parsed))
      return signalPassFailure();
    SlotStager(getOperation(), *parsed).run();
  }
};
} // namespace
} // namespace ztc
