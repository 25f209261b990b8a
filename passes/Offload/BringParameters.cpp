#include "compiler/Conversion/StepRoles.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/Remarks.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "passes/Offload/SlotUses.h"
#include "passes/Offload/StepOrder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include <tuple>

#define DEBUG_TYPE "ztc-bring-parameters"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BRINGPARAMETERS
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;
using plan_ir::Space;

/// Steps of so many other blocks between two uses end a run: what one block needs comes while another is computed.
constexpr size_t kBlocksBetweenRuns = 2;

/// Steps of one program that one window serves, in order. With a gather in place go the steps that begin it, and the
/// wait of the computation for its end.
struct WindowRun {
  SmallVector<Operation *> steps;
  bool isWritten = false;

  /// What it begins with.
  Operation *first() const {
    auto collective = dyn_cast<plan_ir::CollectiveOp>(steps.front());
    return collective ? startOfCollective(collective) : steps.front();
  }
};

/// A bucket's parameters, all of them on each rank.
struct WholeParameters {
  plan_ir::SlotOp slot;
  Space space = Space::Host;
  plan_ir::LaunchOp update; ///< the one that works on them piece by piece where they lie; null: there is none
  llvm::DenseMap<Operation *, SmallVector<WindowRun>> runs; ///< by program
};

class ParameterBringer {
public:
  ParameterBringer(ModuleOp module, const OffloadChoice &choice)
      : module(module), choice(choice), updating(updatingProgram(module)), builder(module.getContext()),
        writer(module, builder), uses(slotUses(module)), sharers(slotSharers(module)), slots(slotsByName(module)) {
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      orders.try_emplace(program, std::make_unique<StepOrder>(program));
  }

  void run() {
    unsigned index = 0;
    for (bool trainable : {false, true})
      for (auto bucket : module.getOps<plan_ir::BucketOp>()) {
        if (bucket.getTrainable() != trainable)
          continue;
        const Space space = spaceOf(choice.parameters, index++);
        plan_ir::SlotOp slot = slots.lookup(bucket.getParameterSlotAttr().getAttr());
        if (space == Space::Device || !slot || slot.getSizeKind() != plan_ir::SizeKind::Full ||
            slot.getSpace() != Space::Device)
          continue;
        if (std::optional<WholeParameters> found = describe(slot, space)) {
          slot.setSpace(space);
          forgetTransfers(slot);
          chosen.push_back(std::move(*found));
        }
      }
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      bring(program);
  }

private:
  // --- which steps need them ---

  std::optional<WholeParameters> describe(plan_ir::SlotOp slot, Space space) {
    const auto stays = [&](const Twine &why) {
      remark::missed(slot.getLoc(), remark::RemarkOpts::name("StaysOnDevice").category(DEBUG_TYPE))
          << slot.getSymName() << " stays on the device: " << why.str();
      return std::nullopt;
    };
    for (plan_ir::SlotOp sharer : sharers.lookup(slot.getSymNameAttr()))
      return stays(sharer.getSymName() + " is in the same place");
    WholeParameters found;
    found.slot = slot;
    found.space = space;
    found.update = updateOf(slot, space);
    Operation *last = nullptr;
    for (Operation *op : uses.lookup(slot.getSymNameAttr())) {
      if (op == found.update || isTransfer(op)) // these go where the slot is
        continue;
      auto step = cast<plan_ir::StepOpInterface>(op);
      auto program = cast<plan_ir::ProgramOp>(op->getParentOp());
      SmallVector<WindowRun> &runs = found.runs[program];
      const bool isEnd = isa<plan_ir::WaitOp>(op) && step.getStepStream() == 0 && last &&
                         isa<plan_ir::CollectiveOp>(last) && last->getParentOp() == program;
      const bool isGather = isa<plan_ir::CollectiveOp>(op) &&
                            cast<plan_ir::CollectiveOp>(op).getKind() == plan_ir::CollectiveKind::AllGather;
      if ((step.getStepStream() != 0 && !isGather) || (isa<plan_ir::WaitOp>(op) && !isEnd) ||
          isa<plan_ir::RecordOp>(op))
        return stays(program.getSymName() + " '" + step.getStepLabel() + "' works on it");
      if (last && isa<plan_ir::CollectiveOp>(last) && !isEnd)
        return stays("nothing waits for a collective");
      if (runs.empty() || (!isEnd && !isGather && isFar(program, last, op)))
        runs.push_back({});
      runs.back().steps.push_back(op);
      for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
        if (operand.getSlot().getAttr() == slot.getSymNameAttr())
          runs.back().isWritten |= !isEnd && operand.getAccess() != Access::Read;
      last = op;
    }
    if (last && isa<plan_ir::CollectiveOp>(last))
      return stays("nothing waits for a collective");
    return found;
  }

  /// The update that is cut into pieces, where it is the only one: of the whole bucket, which at stage 0 a rank
  /// updates.
  plan_ir::LaunchOp updateOf(plan_ir::SlotOp slot, Space space) {
    plan_ir::LaunchOp found;
    for (Operation *op : uses.lookup(slot.getSymNameAttr())) {
      auto launch = dyn_cast<plan_ir::LaunchOp>(op);
      if (!launch || !launch.getBucketAttr() || launch.getExtent() || launch->getParentOp() != updating)
        continue;
      if (found || !worksOnWhole(launch, slot) || (space == Space::Disk && isHosts(launch)))
        return {};
      found = launch;
    }
    return found;
  }

  static bool worksOnWhole(plan_ir::LaunchOp launch, plan_ir::SlotOp slot) {
    return llvm::all_of(launch.getSlots().getAsRange<plan_ir::OperandAttr>(), [&](plan_ir::OperandAttr operand) {
      return operand.getSlot().getAttr() != slot.getSymNameAttr() ||
             (!operand.getOffset() && !operand.getBytes() && !operand.getOwnShard());
    });
  }

  /// Whether the host's cores will compute a launch, but for a slot on the disk.
  bool isHosts(plan_ir::LaunchOp launch) {
    return choice.updatesOnHost &&
           llvm::any_of(launch.getSlots().getAsRange<plan_ir::OperandAttr>(), [&](plan_ir::OperandAttr operand) {
             plan_ir::SlotOp slot = slots.lookup(operand.getSlot().getAttr());
             return slot && slot.getSpace() == Space::Host;
           });
  }

  /// What goes to a checkpoint is read where it lies.
  void forgetTransfers(plan_ir::SlotOp slot) {
    for (Operation *op : uses.lookup(slot.getSymNameAttr()))
      if (isTransfer(op))
        replaceSlot(cast<plan_ir::StepOpInterface>(op), slot.getSymNameAttr(), {});
  }

  bool isFar(plan_ir::ProgramOp program, Operation *before, Operation *after) {
    const StepOrder &order = *orders[program];
    const auto layerOf = [](Operation *op) { return cast<plan_ir::StepOpInterface>(op).getStepLayer(); };
    llvm::SmallSet<int64_t, 4> others;
    for (unsigned place = order.placeUntil(before) + 1, end = order.placeFrom(after);
         place < end && others.size() < kBlocksBetweenRuns; ++place)
      if (const int64_t layer = layerOf(order.at(place)); layer != layerOf(before) && layer != layerOf(after))
        others.insert(layer);
    return others.size() >= kBlocksBetweenRuns;
  }

  // --- how they come ---

  /// Moves are in one order: what is needed first comes first.
  void bring(plan_ir::ProgramOp program) {
    struct Turn {
      unsigned place;
      WholeParameters *parameters;
      size_t index;
    };
    const StepOrder &order = *orders[program];
    SmallVector<Turn> turns;
    for (WholeParameters &parameters : chosen)
      for (auto [index, run] : llvm::enumerate(parameters.runs[program]))
        turns.push_back({order.placeFrom(run.first()), &parameters, index});
    llvm::stable_sort(turns, [](const Turn &a, const Turn &b) { return a.place < b.place; });
    for (const Turn &turn : turns)
      bringRun(program, *turn.parameters, turn.index);
  }

  void bringRun(plan_ir::ProgramOp program, WholeParameters &parameters, size_t index) {
    const StepOrder &order = *orders[program];
    WindowRun &run = parameters.runs[program][index];
    Operation *const begin = run.first();
    plan_ir::SlotOp window = windowOf(program, parameters, index);
    for (Operation *op : run.steps)
      replaceSlot(cast<plan_ir::StepOpInterface>(op), parameters.slot.getSymNameAttr(), FlatSymbolRefAttr::get(window));
    const int64_t layer = int64_t(parameters.slot.getLayer());
    const std::string label = window.getSymName().str();

    // It begins one block ahead, after what the program has made of the parameters until then.
    unsigned least = 0;
    if (index > 0)
      least = order.placeUntil(parameters.runs[program][index - 1].steps.back()) + 1;
    if (parameters.update && parameters.update->getParentOp() == program && parameters.update->isBeforeInBlock(begin))
      least = std::max(least, order.placeOf(parameters.update) + 1);
    Operation *early = begin;
    if (const unsigned first = order.placeFrom(begin); first < order.size())
      early = order.at(order.oneBlockBefore(first, std::min(least, first)));
    builder.setInsertionPoint(early->isBeforeInBlock(begin) ? early : begin);
    writer.joinComputation(layer, label + " in");
    writer.move(layer, label + " in", {whole(Access::Read, parameters.slot), whole(Access::Write, window)});
    const int64_t there = writer.record(kMoveStream, layer, label + " in end");
    builder.setInsertionPoint(begin);
    writer.wait(0, there, layer, label + " in done", {whole(Access::Write, window)});
    if (run.isWritten)
      takeBack(program, parameters, run, window);
  }

  /// What an update has made of them goes down while the next block's is computed.
  void takeBack(plan_ir::ProgramOp program, WholeParameters &parameters, WindowRun &run, plan_ir::SlotOp window) {
    const StepOrder &order = *orders[program];
    const int64_t layer = int64_t(parameters.slot.getLayer());
    const std::string label = window.getSymName().str();
    unsigned last = order.placeUntil(run.steps.back());
    if (isa<plan_ir::WaitOp>(run.steps.back())) {
      // The wait for a gather stands where all updates end: then all windows would be there together.
      Operation *const collective = run.steps[run.steps.size() - 2], *const end = run.steps.back();
      const unsigned place = std::max(order.oneBlockAfter(order.placeUntil(collective)), order.placeFrom(collective));
      if (place < order.size() && order.at(place)->isBeforeInBlock(end))
        end->moveBefore(order.at(place));
      last = order.placeUntil(end);
    }
    builder.setInsertionPointAfter(run.steps.back());
    writer.joinComputation(layer, label + " out");
    writer.move(layer, label + " out", {whole(Access::Read, window), whole(Access::Write, parameters.slot)});
    const int64_t gone = writer.record(kMoveStream, layer, label + " out end");
    if (const unsigned until = order.oneBlockAfter(last); until < order.size())
      builder.setInsertionPoint(order.at(until));
    else
      builder.setInsertionPointToEnd(&program.getBody().front());
    writer.wait(0, gone, layer, label + " out done", {whole(Access::Read, window)});
  }

  /// One for each run of a program; programs share them, but for `@microstep` and `@update`, between which it would
  /// live.
  plan_ir::SlotOp windowOf(plan_ir::ProgramOp program, WholeParameters &parameters, size_t index) {
    std::string name = parameters.slot.getSymName().str();
    name += program.getSymName() == "update" ? ".updated" : ".brought";
    if (index > 0)
      name += std::to_string(index + 1);
    plan_ir::SlotOp &window = windows[name];
    if (window)
      return window;
    builder.setInsertionPointAfter(parameters.slot);
    window = cast<plan_ir::SlotOp>(builder.clone(*parameters.slot));
    window.setSymName(name);
    window.setSlotClass(plan_ir::SlotClass::Gathered);
    window.setPersistent(false);
    window.setSpace(Space::Device);
    window.setReason("from below, for the steps that work on it");
    return window;
  }

  Attribute whole(Access access, plan_ir::SlotOp slot) {
    return MoveWriter::operand(builder.getContext(), access, FlatSymbolRefAttr::get(slot.getSymNameAttr()));
  }

  ModuleOp module;
  const OffloadChoice choice;
  plan_ir::ProgramOp updating;
  OpBuilder builder;
  MoveWriter writer;
  llvm::DenseMap<Operation *, std::unique_ptr<StepOrder>> orders; ///< of each program before moves are put into it
  SlotUses uses;
  SlotSharers sharers;
  const SlotsByName slots; ///< without windows
  SmallVector<WholeParameters> chosen;
  llvm::StringMap<plan_ir::SlotOp> windows;
};

struct BringParameters : impl::BringParametersBase<BringParameters> {
  using BringParametersBase::BringParametersBase;
  void runOnOperation() override {
    FailureOr<OffloadChoice> parsed = readChoice(getOperation(), choice, "parameters=HOST+DISK");
    if (failed(parsed))
      return signalPassFailure();
    ParameterBringer(getOperation(), *parsed).run();
  }
};
} // namespace
} // namespace ztc
