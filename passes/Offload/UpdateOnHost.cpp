#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/Remarks.h"
#include "passes/Offload/BucketPieces.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "passes/Offload/SlotUses.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#define DEBUG_TYPE "ztc-update-on-host"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_UPDATEONHOST
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;
using plan_ir::Space;

/// A slot of the device that an update works on.
struct CarriedSlot {
  plan_ir::SlotOp slot;
  bool ownShard = false;
  bool isOfBucket = false; ///< it goes through a window, piece by piece; else there is a copy of it
  bool isWritten = false;
};

/// A launch that will be the host's.
struct HostUpdate {
  plan_ir::LaunchOp launch;
  plan_ir::BucketOp bucket;
  SmallVector<CarriedSlot> carried;
};

class HostUpdater {
public:
  HostUpdater(ModuleOp module, uint64_t pieceElements)
      : module(module), builder(module.getContext()), writer(module, builder), length(pieceElements) {}

  void run(plan_ir::ProgramOp program) {
    uint64_t all = 0;
    if (hasLaunches(program))
      leaveGradients(program);
    for (auto launch : program.getBody().front().getOps<plan_ir::LaunchOp>())
      if (std::optional<HostUpdate> update = describe(launch)) {
        all += update->bucket.getElements();
        updates.push_back(std::move(*update));
      }
    if (!length)
      length = roundUp(updatePieceElements(all), kPieceUnit);
    makeSlots();
    for (auto [index, update] : llvm::enumerate(updates)) {
      const int64_t last = compute(update);
      Operation *next = index + 1 < updates.size() ? updates[index + 1].launch.getOperation() : nullptr;
      waitFor(update, last, next);
      update.launch.erase();
    }
  }

private:
  plan_ir::SlotOp slotOf(plan_ir::OperandAttr operand) {
    return module.lookupSymbol<plan_ir::SlotOp>(operand.getSlot().getAttr());
  }

  bool hasLaunches(plan_ir::ProgramOp program) {
    return llvm::any_of(program.getBody().front().getOps<plan_ir::LaunchOp>(),
                        [&](plan_ir::LaunchOp launch) { return describe(launch).has_value(); });
  }

  /// A gradient that comes from the host's memory for such a launch alone stays there.
  void leaveGradients(plan_ir::ProgramOp program) {
    llvm::MapVector<StringAttr, SmallVector<plan_ir::StepOpInterface>> uses;
    for (Operation &op : program.getBody().front())
      if (auto step = dyn_cast<plan_ir::StepOpInterface>(op))
        for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
          uses[operand.getSlot().getAttr()].push_back(step);
    for (auto &[name, steps] : uses) {
      plan_ir::MoveOp move;
      plan_ir::LaunchOp launch;
      bool isAlone = true;
      for (plan_ir::StepOpInterface step : steps) {
        if (isa<plan_ir::WaitOp>(*step))
          continue;
        if (auto found = dyn_cast<plan_ir::MoveOp>(*step); found && !move && !launch && found.getSlots().size() == 2)
          move = found;
        else if (auto found = dyn_cast<plan_ir::LaunchOp>(*step); found && move && !launch)
          launch = found;
        else
          isAlone = false;
      }
      if (!isAlone || !launch || !describe(launch))
        continue;
      auto below = cast<plan_ir::OperandAttr>(move.getSlots()[0]),
           here = cast<plan_ir::OperandAttr>(move.getSlots()[1]);
      if (slotOf(below).getSpace() != Space::Host || here.getSlot().getAttr() != name || below.getPieceElements() ||
          here.getOwnShard())
        continue;
      for (plan_ir::StepOpInterface step : steps)
        replaceSlot(step, name, isa<plan_ir::WaitOp>(*step) ? FlatSymbolRefAttr() : below.getSlot());
      move.erase();
      if (auto unused = module.lookupSymbol<plan_ir::SlotOp>(name); SymbolTable::symbolKnownUseEmpty(unused, module))
        unused.erase();
    }
  }

  /// None where nothing of the launch lies below, or where it cannot be the host's: that, with a remark.
  std::optional<HostUpdate> describe(plan_ir::LaunchOp launch) {
    if (!launch.getBucketAttr())
      return std::nullopt;
    HostUpdate update{launch, module.lookupSymbol<plan_ir::BucketOp>(launch.getBucketAttr().getAttr()), {}};
    bool isBelow = false;
    std::string obstacle;
    for (auto operand : launch.getSlots().getAsRange<plan_ir::OperandAttr>()) {
      plan_ir::SlotOp slot = slotOf(operand);
      isBelow |= slot.getSpace() != Space::Device;
      if (slot.getSpace() == Space::Disk)
        obstacle = slot.getSymName().str() + " lies on the disk";
      if (slot.getSpace() != Space::Device)
        continue;
      auto *known = llvm::find_if(update.carried, [&](CarriedSlot &carried) { return carried.slot == slot; });
      if (known == update.carried.end()) {
        update.carried.push_back({slot, operand.getOwnShard(), isOfBucket(slot, update.bucket)});
        known = &update.carried.back();
      }
      known->isWritten |= operand.getAccess() != Access::Read;
      if (!known->isOfBucket && (known->isWritten || slot.getGpuElements() || operand.getOwnShard()))
        obstacle = slot.getSymName().str() + " is not a part of the bucket";
    }
    if (!isBelow)
      return std::nullopt;
    if (obstacle.empty())
      return update;
    if (!said.insert(launch).second)
      return std::nullopt;
    remark::missed(launch.getLoc(), remark::RemarkOpts::name("StaysOnDevice").category(DEBUG_TYPE))
        << launch.getLabel() << " is computed on the device: " << obstacle;
    return std::nullopt;
  }

  uint64_t pieceOf(HostUpdate &update) {
    return std::min(length, roundUp(std::max<uint64_t>(update.bucket.getElements(), 1), kPieceUnit));
  }

  /// Windows, one of each kind and large enough for the longest piece, and copies of what all pieces read: in the
  /// host's memory.
  void makeSlots() {
    if (updates.empty())
      return;
    builder.setInsertionPoint(*module.getOps<plan_ir::SlotOp>().begin());
    llvm::MapVector<StringAttr, std::pair<plan_ir::SlotOp, uint64_t>> longest; ///< by kind
    for (HostUpdate &update : updates)
      for (CarriedSlot &carried : update.carried) {
        if (carried.isOfBucket) {
          auto &[slot, elements] = longest[builder.getStringAttr(windowKindOf(carried.slot))];
          const uint64_t whole = roundUp(std::max<uint64_t>(update.bucket.getElements(), 1), kWindowUnit);
          slot = carried.slot;
          elements = std::max(elements, std::min(pieceOf(update), whole));
        } else if (FlatSymbolRefAttr &copy = copies[carried.slot.getSymNameAttr()]; !copy) {
          copy = keepOnHost(cast<plan_ir::SlotOp>(builder.clone(*carried.slot)),
                            "on_host." + carried.slot.getSymName().str(), "what the host's cores read of it");
        }
      }
    for (auto &[kind, found] : longest) {
      auto window =
          makeWindow(builder, module, found.first, "on_host", found.second, "a piece of what the host's cores work on");
      windows[kind] = keepOnHost(window, window.getSymName().str(), window.getReason().str());
    }
  }

  FlatSymbolRefAttr keepOnHost(plan_ir::SlotOp slot, const std::string &name, const std::string &reason) {
    slot.setSymName(name);
    slot.setReason(reason);
    slot.setSlotClass(plan_ir::SlotClass::Workspace);
    slot.setAccumulator(false);
    slot.removeSameAsAtOneRankAttr();
    slot.removeSameAsIfAccumulatingAttr();
    slot.setPersistent(true);
    slot.setSpace(Space::Host);
    return FlatSymbolRefAttr::get(slot.getSymNameAttr());
  }

  FlatSymbolRefAttr onHost(CarriedSlot &carried) {
    return carried.isOfBucket ? windows[builder.getStringAttr(windowKindOf(carried.slot))]
                              : copies[carried.slot.getSymNameAttr()];
  }

  Attribute onDevice(Access access, CarriedSlot &carried, uint64_t piece, uint64_t elements) {
    auto name = FlatSymbolRefAttr::get(carried.slot.getSymNameAttr());
    return carried.isOfBucket
               ? MoveWriter::operand(builder.getContext(), access, name, carried.ownShard, piece, elements)
               : MoveWriter::operand(builder.getContext(), access, name);
  }

  /// All pieces, on the stream of moves: down, computed, up. Returns the event after them.
  int64_t compute(HostUpdate &update) {
    const uint64_t elements = pieceOf(update);
    const uint64_t pieces = std::max<uint64_t>(1, llvm::divideCeil(update.bucket.getElements(), elements));
    const int64_t layer = int64_t(update.launch.getLayer());
    const std::string name = update.bucket.getSymName().str() + " on the host";
    builder.setInsertionPoint(update.launch);
    writer.joinComputation(layer, name);
    for (uint64_t piece = 0; piece < pieces; ++piece) {
      const std::string label = name + " piece " + std::to_string(piece);
      SmallVector<Attribute> down, up;
      for (CarriedSlot &carried : update.carried) {
        if (!carried.isOfBucket && piece > 0)
          continue;
        // What is only written comes down too: the kernel may leave it as it is where the norm is not finite.
        down.push_back(onDevice(Access::Read, carried, piece, elements));
        down.push_back(MoveWriter::operand(builder.getContext(), Access::Write, onHost(carried)));
        if (!carried.isWritten)
          continue;
        up.push_back(MoveWriter::operand(builder.getContext(), Access::Read, onHost(carried)));
        up.push_back(onDevice(Access::Write, carried, piece, elements));
      }
      if (!down.empty())
        writer.move(layer, label + " down", down);
      launchPiece(update, piece, elements, pieces);
      if (!up.empty())
        writer.move(layer, label + " up", up);
    }
    return writer.record(kMoveStream, layer, name + " end");
  }

  void launchPiece(HostUpdate &update, uint64_t piece, uint64_t elements, uint64_t pieces) {
    plan_ir::LaunchOp whole = update.launch;
    auto part = cast<plan_ir::LaunchOp>(builder.clone(*whole));
    SmallVector<Attribute> slots;
    for (auto operand : whole.getSlots().getAsRange<plan_ir::OperandAttr>()) {
      plan_ir::SlotOp slot = slotOf(operand);
      auto *carried = llvm::find_if(update.carried, [&](CarriedSlot &one) { return one.slot == slot; });
      if (carried == update.carried.end()) // it lies there
        slots.push_back(MoveWriter::operand(builder.getContext(), operand.getAccess(), operand.getSlot(),
                                            operand.getOwnShard(), piece, elements));
      else if (carried->isOfBucket)
        slots.push_back(MoveWriter::operand(builder.getContext(), operand.getAccess(), onHost(*carried)));
      else
        slots.push_back(plan_ir::OperandAttr::get(builder.getContext(), operand.getAccess(), onHost(*carried),
                                                  operand.getOffset(), operand.getBytes(), operand.getOwnShard()));
    }
    const uint64_t flops = whole.getFlops(), share = flops / pieces;
    part.setSlotsAttr(builder.getArrayAttr(slots));
    part.setLabelAttr(builder.getStringAttr(whole.getLabel() + " piece " + Twine(piece)));
    part.setReason("its states lie in the host's memory, whose cores update them there");
    part.setStream(kMoveStream);
    part.setPiece(piece);
    part.setPieceElements(elements);
    part.setFlops(share + (piece == 0 ? flops % pieces : 0));
  }

  /// The computation waits before anything else works on what went up, before the next such update, or at the end.
  void waitFor(HostUpdate &update, int64_t last, Operation *next) {
    plan_ir::LaunchOp launch = update.launch;
    SmallVector<Attribute> slots;
    for (CarriedSlot &carried : update.carried)
      slots.push_back(MoveWriter::operand(builder.getContext(), Access::ReadWrite,
                                          FlatSymbolRefAttr::get(carried.slot.getSymNameAttr())));
    const auto works = [&](Operation *op) {
      auto step = dyn_cast<plan_ir::StepOpInterface>(op);
      return step &&
             llvm::any_of(step.getStepSlots().getAsRange<plan_ir::OperandAttr>(), [&](plan_ir::OperandAttr used) {
               auto *carried = llvm::find_if(update.carried, [&](CarriedSlot &one) {
                 return one.slot.getSymNameAttr() == used.getSlot().getAttr();
               });
               return carried != update.carried.end() && (carried->isWritten || used.getAccess() != Access::Read);
             });
    };
    Operation *before = launch->getNextNode();
    while (before && before != next && !works(before))
      before = before->getNextNode();
    if (auto collective = dyn_cast_or_null<plan_ir::CollectiveOp>(before))
      before = startOfCollective(collective);
    if (before)
      builder.setInsertionPoint(before);
    else
      builder.setInsertionPointToEnd(launch->getBlock());
    const std::string name = update.bucket.getSymName().str() + " on the host done";
    writer.wait(0, last, int64_t(launch.getLayer()), name, slots);
  }

  ModuleOp module;
  OpBuilder builder;
  MoveWriter writer;
  uint64_t length; ///< elements of a piece
  SmallVector<HostUpdate> updates;
  llvm::SmallPtrSet<Operation *, 8> said; ///< launches that stay on the device, of which a remark says so
  llvm::MapVector<StringAttr, FlatSymbolRefAttr> windows; ///< by kind
  llvm::MapVector<StringAttr, FlatSymbolRefAttr> copies;  ///< by slot of the device
};

struct UpdateOnHost : impl::UpdateOnHostBase<UpdateOnHost> {
  using UpdateOnHostBase::UpdateOnHostBase;
  void runOnOperation() override {
    FailureOr<OffloadChoice> parsed = readChoice(getOperation(), choice, "states=HOST+DISK/update=host");
    if (failed(parsed))
      return signalPassFailure();
    if (pieceElements % kPieceUnit != 0) {
      getOperation().emitError("piece-elements ") << pieceElements.getValue() << " is not a multiple of " << kPieceUnit;
      return signalPassFailure();
    }
    if (!parsed->updatesOnHost)
      return;
    if (plan_ir::ProgramOp program = updatingProgram(getOperation()))
      HostUpdater(getOperation(), pieceElements).run(program);
  }
};
} // namespace
} // namespace ztc
