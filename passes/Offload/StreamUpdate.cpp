#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Offload/BucketPieces.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/BlockState.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#define DEBUG_TYPE "ztc-stream-update"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_STREAMUPDATE
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;
using plan_ir::Space;

/// A slot below that a launch works on, and its window's kind.
struct Streamed {
  plan_ir::SlotOp slot;
  bool isRead = false, isWritten = false;
};

/// A launch that works on slots below.
struct StreamedLaunch {
  plan_ir::LaunchOp launch;
  plan_ir::BucketOp bucket;
  SmallVector<Streamed> slots;
  uint64_t elements = 0; ///< of a piece
  uint64_t pieces = 0;
};

class UpdateStreamer {
public:
  UpdateStreamer(ModuleOp module, uint64_t pieceElements)
      : module(module), symbols(module), builder(module.getContext()), writer(module, builder), piece(pieceElements) {}

  void run(plan_ir::ProgramOp program) {
    collect(program);
    if (launches.empty())
      return;
    choosePieces(program);
    for (StreamedLaunch &launch : launches) {
      launch.pieces = std::max<uint64_t>(1, llvm::divideCeil(launch.bucket.getElements(), launch.elements));
      for (uint64_t p = 0; p < launch.pieces; ++p)
        turns.push_back({&launch, p});
    }
    makeWindows();
    // In a program that only updates they begin with it; else windows would be there all through the forward.
    if (isUpdateAlone(program))
      builder.setInsertionPointToStart(&program.getBody().front());
    else
      builder.setInsertionPoint(launches.front().launch);
    writer.joinComputation(-1, "update moves");
    for (unsigned turn = 0; turn < 2; ++turn)
      moveIn(turn);
    for (unsigned turn = 0; turn < turns.size(); ++turn)
      compute(turn);
    for (StreamedLaunch &launch : launches)
      launch.launch.erase();
    builder.setInsertionPointToEnd(&program.getBody().front());
    const int64_t last = writer.record(kMoveStream, -1, "update moves end");
    // The computation has waited for what moved before.
    SmallVector<Attribute> leaving;
    for (size_t turn = turns.size() - std::min<size_t>(turns.size(), 2); turn < turns.size(); ++turn)
      addWindows(leaving, turn);
    writer.wait(0, last, -1, "update moves done", leaving);
  }

private:
  /// Windows take turns.
  struct Turn {
    StreamedLaunch *launch;
    uint64_t piece;
  };

  plan_ir::SlotOp slotOf(plan_ir::OperandAttr operand) {
    return symbols.lookup<plan_ir::SlotOp>(operand.getSlot().getAttr());
  }

  void collect(plan_ir::ProgramOp program) {
    for (auto launch : program.getBody().front().getOps<plan_ir::LaunchOp>()) {
      if (!launch.getBucketAttr() || launch.getStream() == kMoveStream) // that one works in the host's memory
        continue;
      StreamedLaunch found{launch, symbols.lookup<plan_ir::BucketOp>(launch.getBucketAttr().getAttr()), {}};
      for (auto operand : launch.getSlots().getAsRange<plan_ir::OperandAttr>()) {
        plan_ir::SlotOp slot = slotOf(operand);
        if (slot.getSpace() == Space::Device)
          continue;
        auto *known = llvm::find_if(found.slots, [&](const Streamed &streamed) { return streamed.slot == slot; });
        if (known == found.slots.end()) {
          found.slots.push_back({slot});
          known = &found.slots.back();
        }
        known->isRead |= operand.getAccess() != Access::Write;
        known->isWritten |= operand.getAccess() != Access::Read;
      }
      if (!found.slots.empty())
        launches.push_back(std::move(found));
    }
  }

  static bool isUpdateAlone(plan_ir::ProgramOp program) { return program.getSymName() == "update"; }

  /// What of a launch goes through a window, for each block of kStateBlock elements.
  static uint64_t bytesPerBlock(const StreamedLaunch &launch) {
    uint64_t bytes = 0;
    for (Streamed streamed : launch.slots)
      bytes += streamed.slot.getElementBytes() * kStateBlock /
               std::max<uint64_t>(1, streamed.slot.getBlockElements().value_or(0));
    return std::max<uint64_t>(1, bytes);
  }

  /// One length for all. Where updates stand in the backward a bucket of usual size is one piece: it comes while the
  /// backward of the block before it computes, and leaves during the next one's; a larger bucket, as an embedding with
  /// wider states is, goes through windows of the same bytes.
  void choosePieces(plan_ir::ProgramOp program) {
    uint64_t all = 0, usual = 0;
    SmallVector<uint64_t> sizes; ///< bytes of each bucket
    for (StreamedLaunch &launch : launches) {
      all += launch.bucket.getElements();
      sizes.push_back(llvm::divideCeil(launch.bucket.getElements(), kStateBlock) * bytesPerBlock(launch));
    }
    llvm::sort(sizes);
    uint64_t length = piece;
    if (!length && isUpdateAlone(program))
      length = updatePieceElements(all);
    else if (!length)
      usual = std::max(updatePieceElements(0), sizes[sizes.size() / 2]);
    for (StreamedLaunch &launch : launches) {
      const uint64_t elements = length ? length : usual / bytesPerBlock(launch) * kStateBlock;
      const uint64_t most = roundUp(std::max<uint64_t>(launch.bucket.getElements(), 1), kPieceUnit);
      launch.elements = std::clamp(roundUp(elements, kPieceUnit), kPieceUnit, most);
    }
  }

  /// What names a slot's windows, asked for once a slot.
  StringRef kindOf(plan_ir::SlotOp slot) {
    StringAttr &kind = kinds[slot];
    if (!kind)
      kind = builder.getStringAttr(windowKindOf(slot));
    return kind;
  }

  FlatSymbolRefAttr windowOf(unsigned turn, plan_ir::SlotOp slot) {
    return windows[builder.getStringAttr(Twine(turn % 2) + kindOf(slot))];
  }

  /// Two of each kind, large enough for the longest piece, in whole blocks of a disk.
  void makeWindows() {
    auto place = *module.getOps<plan_ir::SlotOp>().begin();
    builder.setInsertionPoint(place);
    llvm::StringMap<uint64_t> longest; ///< by kind: elements
    for (StreamedLaunch &launch : launches)
      for (const Streamed &streamed : launch.slots) {
        uint64_t &elements = longest[windowKindOf(streamed.slot)];
        const uint64_t whole = roundUp(std::max<uint64_t>(launch.bucket.getElements(), 1), kWindowUnit);
        elements = std::max(elements, std::min(launch.elements, whole));
      }
    for (unsigned side = 0; side < 2; ++side)
      for (const StreamedLaunch &launch : launches)
        for (const Streamed &streamed : launch.slots) {
          FlatSymbolRefAttr &window = windows[builder.getStringAttr(Twine(side) + kindOf(streamed.slot))];
          if (window)
            continue;
          auto made = makeWindow(builder, module, streamed.slot, "window" + Twine(side), longest[kindOf(streamed.slot)],
                                 "a piece of what lies below, while it is updated");
          symbols.insert(made);
          window = FlatSymbolRefAttr::get(made.getSymNameAttr());
        }
  }

  /// Names the windows of a turn, where they are not named yet.
  void addWindows(SmallVector<Attribute> &names, size_t number) {
    for (const Streamed &streamed : turns[number].launch->slots) {
      Attribute window =
          MoveWriter::operand(builder.getContext(), Access::ReadWrite, windowOf(unsigned(number), streamed.slot));
      if (!llvm::is_contained(names, window))
        names.push_back(window);
    }
  }

  std::string labelOf(const Turn &turn) {
    return (turn.launch->bucket.getSymName() + " piece " + Twine(turn.piece)).str();
  }

  void moveIn(unsigned number) {
    if (number >= turns.size())
      return;
    const Turn &turn = turns[number];
    SmallVector<Attribute> pairs;
    for (const Streamed &streamed : turn.launch->slots) {
      pairs.push_back(below(Access::Read, streamed.slot, turn));
      pairs.push_back(MoveWriter::operand(builder.getContext(), Access::Write, windowOf(number, streamed.slot)));
    }
    const int64_t layer = int64_t(turn.launch->launch.getLayer());
    // What is only written comes in too: the kernel may leave it as it is where the norm is not finite.
    writer.move(layer, labelOf(turn) + " in", pairs);
    arrived.push_back(writer.record(kMoveStream, layer, labelOf(turn) + " there"));
  }

  void compute(unsigned number) {
    const Turn &turn = turns[number];
    plan_ir::LaunchOp whole = turn.launch->launch;
    const int64_t layer = int64_t(whole.getLayer());
    builder.setInsertionPoint(whole);
    SmallVector<Attribute> windows, outward;
    for (const Streamed &streamed : turn.launch->slots) {
      FlatSymbolRefAttr window = windowOf(number, streamed.slot);
      windows.push_back(MoveWriter::operand(builder.getContext(), Access::ReadWrite, window));
      if (!streamed.isWritten)
        continue;
      outward.push_back(MoveWriter::operand(builder.getContext(), Access::Read, window));
      outward.push_back(below(Access::Write, streamed.slot, turn));
    }
    // Moves are in order: what left these two turns ago, through windows of other kinds perhaps, has left too.
    if (number >= 2)
      addWindows(windows, number - 2);
    writer.wait(0, arrived[number], layer, labelOf(turn) + " wait", windows);
    launchPiece(number);
    writer.joinComputation(layer, labelOf(turn) + " done");
    if (!outward.empty())
      writer.move(layer, labelOf(turn) + " out", outward);
    moveIn(number + 2);
  }

  void launchPiece(unsigned number) {
    const Turn &turn = turns[number];
    plan_ir::LaunchOp whole = turn.launch->launch;
    auto part = cast<plan_ir::LaunchOp>(builder.clone(*whole));
    SmallVector<Attribute> slots;
    for (auto operand : whole.getSlots().getAsRange<plan_ir::OperandAttr>()) {
      plan_ir::SlotOp slot = slotOf(operand);
      if (slot.getSpace() != Space::Device)
        slots.push_back(MoveWriter::operand(builder.getContext(), operand.getAccess(), windowOf(number, slot)));
      else if (isOfBucket(slot, turn.launch->bucket))
        slots.push_back(MoveWriter::operand(builder.getContext(), operand.getAccess(), operand.getSlot(),
                                            operand.getOwnShard(), turn.piece, turn.launch->elements));
      else
        slots.push_back(operand);
    }
    const uint64_t flops = whole.getFlops(), share = flops / turn.launch->pieces;
    part.setSlotsAttr(builder.getArrayAttr(slots));
    part.setLabelAttr(builder.getStringAttr(whole.getLabel() + " piece " + Twine(turn.piece)));
    part.setPiece(turn.piece);
    part.setPieceElements(turn.launch->elements);
    part.setFlops(share + (turn.piece == 0 ? flops % turn.launch->pieces : 0));
  }

  Attribute below(Access access, plan_ir::SlotOp slot, const Turn &turn) {
    return MoveWriter::operand(builder.getContext(), access, FlatSymbolRefAttr::get(slot.getSymNameAttr()), false,
                               turn.piece, turn.launch->elements);
  }

  ModuleOp module;
  SymbolTable symbols; ///< a launch has a piece for each few million elements, and each names slots
  OpBuilder builder;
  MoveWriter writer;
  const uint64_t piece; ///< elements that an option asks for; 0: none does
  SmallVector<StreamedLaunch> launches;
  SmallVector<Turn> turns;
  SmallVector<int64_t> arrived;                           ///< by turn: the event
  llvm::MapVector<StringAttr, FlatSymbolRefAttr> windows; ///< by side and kind
  llvm::DenseMap<Operation *, StringAttr> kinds;          ///< of slots
};

struct StreamUpdate : impl::StreamUpdateBase<StreamUpdate> {
  using StreamUpdateBase::StreamUpdateBase;
  void runOnOperation() override {
    if (pieceElements % kPieceUnit != 0) {
      getOperation().emitError("piece-elements ") << pieceElements.getValue() << " is not a multiple of " << kPieceUnit;
      return signalPassFailure();
    }
    if (plan_ir::ProgramOp program = updatingProgram(getOperation()))
      UpdateStreamer(getOperation(), pieceElements).run(program);
  }
};
} // namespace
} // namespace ztc
