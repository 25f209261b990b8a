#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Verify/Passes.h"
#include <map>

#define DEBUG_TYPE "ztc-verify-assign"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYASSIGN
#include "passes/Verify/Passes.h.inc"

namespace {

/// Bytes [begin, end) of a slot.
struct Piece {
  StringAttr slot;
  uint64_t begin = 0, end = 0;
};

/// Which value each byte of each slot holds, as intervals that do not overlap.
class Contents {
public:
  void write(const Piece &piece, Value value) {
    auto &intervals = slots[piece.slot];
    cut(intervals, piece.begin);
    cut(intervals, piece.end);
    intervals.erase(intervals.lower_bound(piece.begin), intervals.lower_bound(piece.end));
    intervals[piece.begin] = {piece.end, value};
  }

  /// A value other than `expected` in the piece, or null.
  Value foreign(const Piece &piece, Value expected) const {
    auto found = slots.find(piece.slot);
    if (found == slots.end())
      return {};
    const auto &intervals = found->second;
    auto it = intervals.upper_bound(piece.begin);
    if (it != intervals.begin())
      --it;
    for (; it != intervals.end() && it->first < piece.end; ++it)
      if (it->second.first > piece.begin && it->second.second != expected)
        return it->second.second;
    return {};
  }

private:
  using Intervals = std::map<uint64_t, std::pair<uint64_t, Value>>;
  /// Makes `at` a boundary.
  static void cut(Intervals &intervals, uint64_t at) {
    auto it = intervals.lower_bound(at);
    if (it == intervals.begin())
      return;
    --it;
    if (it->second.first <= at)
      return;
    intervals[at] = it->second;
    it->second.first = at;
  }
  llvm::DenseMap<StringAttr, Intervals> slots;
};

class PlaceChecker {
public:
  PlaceChecker(ModuleOp module, const BucketTable &buckets, func::FuncOp function)
      : symbols(module), buckets(buckets), function(function) {}

  LogicalResult check() {
    for (BlockArgument argument : function.getArguments())
      if (failed(checkPlace(argument)))
        return failure();
    for (BlockArgument argument : function.getArguments())
      contents.write(*pieceOf(argument), argument);
    for (Operation &op : function.getBody().front())
      if (failed(checkOp(&op)))
        return failure();
    return checkReturned();
  }

private:
  plan_ir::PlaceAttr placeOf(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return function.getArgAttrOfType<plan_ir::PlaceAttr>(argument.getArgNumber(), plan_ir::kPlace);
    auto places = value.getDefiningOp()->getAttrOfType<ArrayAttr>(plan_ir::kPlaces);
    unsigned index = cast<OpResult>(value).getResultNumber();
    return places && index < places.size() ? dyn_cast<plan_ir::PlaceAttr>(places[index]) : plan_ir::PlaceAttr();
  }

  std::optional<Piece> pieceOf(Value value) {
    plan_ir::PlaceAttr place = placeOf(value);
    if (!place)
      return std::nullopt;
    return Piece{place.getSlot().getAttr(), place.getOffset(), place.getOffset() + valueBytes(value.getType())};
  }

  /// Of a bucket's shard as much as of the bucket: that is what it has at one rank.
  uint64_t valueBytes(Type type) {
    if (auto pending = dyn_cast<dist::PendingType>(type))
      type = pending.getResult();
    if (dist::bucketOf(type))
      return buckets.elements(type) * widthOf(type);
    return tensorBytes(type);
  }
  static uint64_t widthOf(Type type) { return uint64_t(elementBytes(type)); }

  /// (A1)
  LogicalResult checkPlace(Value value) {
    std::optional<Piece> piece = pieceOf(value);
    if (!piece)
      return emitError(value.getLoc(), "A1: a value of @") << function.getName() << " has no place: " << value;
    auto [found, inserted] = slotBytes.try_emplace(piece->slot, 0);
    if (inserted) {
      auto slot = symbols.lookup<plan_ir::SlotOp>(piece->slot);
      if (!slot)
        return emitError(value.getLoc(), "A1: there is no slot ") << piece->slot;
      // Of a state in blocks a code an element: that is what its value counts as.
      found->second = slot.getElements() * (slot.getBlockElements() ? 1 : slot.getElementBytes());
      slotKinds[piece->slot] = slot.getSizeKind();
    }
    if (placeOf(value).getOwnShard() && (slotKinds[piece->slot] != plan_ir::SizeKind::Full || piece->begin))
      return emitError(value.getLoc(), "A1: the own shard of slot ") << piece->slot << ", which holds no whole bucket";
    if (piece->end > found->second)
      return emitError(value.getLoc(), "A1: a value ends at byte ")
             << piece->end << " of slot " << piece->slot << ", which has " << found->second;
    return success();
  }

  LogicalResult expectPlace(Operation *op, Value value, Value source, uint64_t offset, bool ownShard = false) {
    std::optional<Piece> piece = pieceOf(value), from = pieceOf(source);
    if (!piece || !from || piece->slot != from->slot || piece->begin != from->begin + offset ||
        placeOf(value).getOwnShard() != (ownShard || placeOf(source).getOwnShard()))
      return op->emitOpError("A2: lies at ")
             << placeOf(value) << ", what it aliases at " << placeOf(source) << " plus " << offset;
    return success();
  }

  /// (A2)
  LogicalResult checkAliases(Operation *op) {
    if (std::optional<Alias> alias = aliasOf(op))
      return expectPlace(op, op->getResult(0), alias->source, alias->offsetBytes, alias->ownShard);
    if (isCollective(op))
      return checkCollective(op);
    if (auto accumulate = dyn_cast<graph::AccumulateOp>(op))
      return failure(failed(expectPlace(op, accumulate.getY(), accumulate.getAccumulator(), 0)) ||
                     failed(expectPlace(op, accumulate.getX(), accumulate.getY(), 0)));
    if (auto pack = dyn_cast<dist::PackOp>(op))
      for (auto [part, offset] : llvm::zip_equal(pack.getParts(), pack.getOffsets()))
        if (failed(expectPlace(op, part, pack.getBucket(), offset * widthOf(part.getType()))))
          return failure();
    return success();
  }

  /// (A5)
  LogicalResult checkCollective(Operation *op) {
    Value from = op->getOperand(0), to = op->getResult(0);
    if (isCollectiveDone(op))
      return expectPlace(op, to, from, 0);
    if (isa<dist::ReduceScatterStartOp>(op))
      return expectPlace(op, to, from, 0, /*ownShard=*/true);
    if (isa<dist::AllReduceStartOp, dist::AllReduceMaxStartOp>(op))
      return expectPlace(op, to, from, 0);
    plan_ir::PlaceAttr shard = placeOf(from), full = placeOf(to);
    auto slot = symbols.lookup<plan_ir::SlotOp>(full.getSlot().getAttr());
    bool inPlace = shard.getOwnShard() && shard.getSlot() == full.getSlot();
    if (full.getOwnShard() || full.getOffset() || (!inPlace && slot.getSameAsAtOneRankAttr() != shard.getSlot()))
      return op->emitOpError("A5: gathers ") << shard << " to " << full << ", which is another place at one rank";
    return success();
  }

  /// What the bytes of a value were last written as: the source of its aliases; of a sum, the addend that came last.
  Value writtenAs(Value value) {
    Value source = resolveAlias(value).source;
    auto sum = source.getDefiningOp<graph::AccumulateOp>();
    if (!sum)
      return source;
    Value last = writtenAs(sum.getX()), before = writtenAs(sum.getAccumulator());
    Operation *a = before.getDefiningOp(), *b = last.getDefiningOp();
    return a && b && b->isBeforeInBlock(a) ? before : last;
  }

  /// What `op` leaves in the place of its results: until a collective is done its place holds what is on its way.
  void noteWritten(Operation *op) {
    if (isCollectiveDone(op) || (isFree(op) && !isa<graph::ConstantOp>(op)))
      return;
    for (Value result : op->getResults())
      contents.write(*pieceOf(result), isCollectiveStart(op) ? (*result.user_begin())->getResult(0) : result);
  }

  /// (A3)
  LogicalResult checkReads(Operation *op) {
    for (Value value : op->getOperands()) {
      // The parts of a pack were checked where it stands; a done reads nothing.
      if (value.getDefiningOp<dist::PackOp>() || isCollectiveDone(op))
        continue;
      Value expected = writtenAs(value);
      if (Value other = contents.foreign(*pieceOf(value), expected)) {
        InFlightDiagnostic error = op->emitOpError("A3: reads what has been overwritten in slot ")
                                   << pieceOf(value)->slot;
        error.attachNote(other.getLoc()) << "by this value";
        return error;
      }
    }
    return success();
  }

  LogicalResult checkOp(Operation *op) {
    for (Value result : op->getResults())
      if (failed(checkPlace(result)))
        return failure();
    if (failed(checkAliases(op)))
      return failure();
    // Aliases read nothing themselves, packs and the return read what must be there in the end.
    bool reads = !isFree(op) || isa<dist::PackOp>(op) || op->hasTrait<OpTrait::IsTerminator>();
    if (reads && failed(checkReads(op)))
      return failure();
    noteWritten(op);
    return success();
  }

  /// (A4)
  LogicalResult checkReturned() {
    Operation *terminator = function.getBody().front().getTerminator();
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      auto bucket = function.getResultAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
      const StringRef kind = graph::resultKind(function, index);
      if (!bucket || kind.empty())
        continue;
      StringRef slot = kind == "reduced_gradient" ? StringRef("gradient") : kind;
      std::string expected = (bucket.getValue() + "." + slot).str();
      // Where the gradient adds up in a wider type than the reduced one has, it does so in a slot of its own.
      std::string wide = (bucket.getValue() + ".accumulated_gradient").str();
      if (kind == "gradient" && symbols.lookup(wide))
        expected = wide;
      std::optional<Piece> piece = pieceOf(terminator->getOperand(index));
      if (!piece || piece->slot.getValue() != expected || piece->begin)
        return function.emitOpError("A4: result ") << index << " does not lie in slot " << expected;
    }
    return success();
  }

  SymbolTable symbols;
  const BucketTable &buckets;
  func::FuncOp function;
  Contents contents;
  llvm::DenseMap<StringAttr, uint64_t> slotBytes;
  llvm::DenseMap<StringAttr, plan_ir::SizeKind> slotKinds;
};

struct VerifyAssign : impl::VerifyAssignBase<VerifyAssign> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    const BucketTable buckets(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(PlaceChecker(getOperation(), buckets, function).check()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
