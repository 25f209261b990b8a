#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "runtime/Core/Sizes.h"
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

/// So many elements of any type, also in records of 256, are whole blocks of a disk.
constexpr uint64_t kPieceUnit = uint64_t(1) << 18;
constexpr uint64_t kSmallestPiece = uint64_t(1) << 22, kMostPieces = 256;
constexpr uint64_t kDiskBlock = 4096;

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
  uint64_t pieces = 0;
};

class UpdateStreamer {
public:
  UpdateStreamer(ModuleOp module, uint64_t pieceElements)
      : module(module), builder(module.getContext()), writer(module, builder), piece(pieceElements) {}

  void run(plan_ir::ProgramOp program) {
    collect(program);
    if (launches.empty())
      return;
    choosePiece();
    for (StreamedLaunch &launch : launches) {
      launch.pieces = std::max<uint64_t>(1, llvm::divideCeil(launch.bucket.getElements(), piece));
      for (uint64_t p = 0; p < launch.pieces; ++p)
        turns.push_back({&launch, p});
    }
    makeWindows();
    builder.setInsertionPointToStart(&program.getBody().front());
    writer.joinComputation(-1, "update moves");
    for (unsigned turn = 0; turn < 2; ++turn)
      moveIn(turn);
    for (unsigned turn = 0; turn < turns.size(); ++turn)
      compute(turn);
    for (StreamedLaunch &launch : launches)
      launch.launch.erase();
    builder.setInsertionPointToEnd(&program.getBody().front());
    const int64_t last = writer.record(kMoveStream, -1, "update moves end");
    SmallVector<Attribute> all;
    for (auto &[name, window] : windows)
      all.push_back(MoveWriter::operand(builder.getContext(), Access::ReadWrite, window));
    writer.wait(0, last, -1, "update moves done", all);
  }

private:
  /// Windows take turns.
  struct Turn {
    StreamedLaunch *launch;
    uint64_t piece;
  };

  static bool isOfBucket(plan_ir::SlotOp slot, plan_ir::BucketOp bucket) {
    return slot.getElements() == bucket.getElements() &&
           (slot.getSizeKind() == plan_ir::SizeKind::Shard || slot.getSizeKind() == plan_ir::SizeKind::Full);
  }
  plan_ir::SlotOp slotOf(plan_ir::OperandAttr operand) {
    return module.lookupSymbol<plan_ir::SlotOp>(operand.getSlot().getAttr());
  }

  void collect(plan_ir::ProgramOp program) {
    for (auto launch : program.getBody().front().getOps<plan_ir::LaunchOp>()) {
      if (!launch.getBucketAttr())
        continue;
      StreamedLaunch found{launch, module.lookupSymbol<plan_ir::BucketOp>(launch.getBucketAttr().getAttr()), {}};
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

  void choosePiece() {
    uint64_t largest = 0, all = 0;
    for (StreamedLaunch &launch : launches) {
      largest = std::max<uint64_t>(largest, launch.bucket.getElements());
      all += launch.bucket.getElements();
    }
    if (!piece)
      piece = std::max(kSmallestPiece, llvm::PowerOf2Ceil(all / kMostPieces));
    piece = roundUp(piece, kPieceUnit);
    mostElements = std::min(piece, roundUp(std::max<uint64_t>(largest, 1), kDiskBlock));
  }

  /// "exp_avg" of "block0.exp_avg", with its type where buckets differ in that.
  std::string kindOf(plan_ir::SlotOp slot) {
    std::string type;
    llvm::raw_string_ostream(type) << slot.getType();
    return (slot.getSymName().rsplit('.').second + " " + type).str();
  }

  FlatSymbolRefAttr windowOf(unsigned turn, plan_ir::SlotOp slot) {
    return windows[builder.getStringAttr(Twine(turn % 2) + kindOf(slot))];
  }

  /// Two of each kind, large enough for the longest piece, in whole blocks of a disk.
  void makeWindows() {
    auto place = *module.getOps<plan_ir::SlotOp>().begin();
    builder.setInsertionPoint(place);
    for (unsigned side = 0; side < 2; ++side)
      for (const StreamedLaunch &launch : launches)
        for (const Streamed &streamed : launch.slots) {
          plan_ir::SlotOp slot = streamed.slot;
          FlatSymbolRefAttr &window = windows[builder.getStringAttr(Twine(side) + kindOf(slot))];
          if (window)
            continue;
          const uint64_t perRecord = std::max<uint64_t>(1, slot.getBlockElements().value_or(0));
          // 4096 / gcd(4096, record) records are a multiple of a block; of 260 bytes 1024.
          const uint64_t records =
              roundUp(llvm::divideCeil(mostElements, perRecord), perRecord > 1 ? 1024 : kDiskBlock);
          std::string name = ("window" + Twine(side) + "." + slot.getSymName().rsplit('.').second).str();
          for (unsigned count = 1; module.lookupSymbol(name); ++count)
            name = ("window" + Twine(side) + "." + slot.getSymName().rsplit('.').second + "." + Twine(count)).str();
          auto made = plan_ir::SlotOp::create(
              builder, slot.getLoc(), name, plan_ir::SlotClass::Workspace, plan_ir::SizeKind::Constant, records,
              IntegerAttr(), slot.getElementBytes(), false, false, slot.getType(), ArrayRef<int64_t>{}, int64_t(-1),
              StringRef("a piece of what lies below, while it is updated"), false, false, FlatSymbolRefAttr(),
              FlatSymbolRefAttr(), IntegerAttr(), IntegerAttr());
          window = FlatSymbolRefAttr::get(made.getSymNameAttr());
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
      pairs.push_back(below(Access::Read, streamed.slot, turn.piece));
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
      outward.push_back(below(Access::Write, streamed.slot, turn.piece));
    }
    // Moves are in order: what left these two turns ago, through windows of other kinds perhaps, has left too.
    if (number >= 2)
      for (const Streamed &streamed : turns[number - 2].launch->slots) {
        Attribute window =
            MoveWriter::operand(builder.getContext(), Access::ReadWrite, windowOf(number - 2, streamed.slot));
        if (!llvm::is_contained(windows, window))
          windows.push_back(window);
      }
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
                                            operand.getOwnShard(), turn.piece, piece));
      else
        slots.push_back(operand);
    }
    const uint64_t flops = whole.getFlops(), share = flops / turn.launch->pieces;
    part.setSlotsAttr(builder.getArrayAttr(slots));
    part.setLabelAttr(builder.getStringAttr(whole.getLabel() + " piece " + Twine(turn.piece)));
    part.setPiece(turn.piece);
    part.setPieceElements(piece);
    part.setFlops(share + (turn.piece == 0 ? flops % turn.launch->pieces : 0));
  }

  Attribute below(Access access, plan_ir::SlotOp slot, uint64_t index) {
    return MoveWriter::operand(builder.getContext(), access, FlatSymbolRefAttr::get(slot.getSymNameAttr()), false,
                               index, piece);
  }

  ModuleOp module;
  OpBuilder builder;
  MoveWriter writer;
  uint64_t piece, mostElements = 0;
  SmallVector<StreamedLaunch> launches;
  SmallVector<Turn> turns;
  SmallVector<int64_t> arrived;                           ///< by turn: the event
  llvm::MapVector<StringAttr, FlatSymbolRefAttr> windows; ///< by side and kind
};

struct StreamUpdate : impl::StreamUpdateBase<StreamUpdate> {
  using StreamUpdateBase::StreamUpdateBase;
  void runOnOperation() override {
    if (pieceElements % kPieceUnit != 0) {
      getOperation().emitError("piece-elements ") << pieceElements << " is not a multiple of " << kPieceUnit;
      return signalPassFailure();
    }
    for (auto program : getOperation().getOps<plan_ir::ProgramOp>())
      if (program.getSymName() == "update")
        UpdateStreamer(getOperation(), pieceElements).run(program);
  }
};
} // namespace
} // namespace ztc
