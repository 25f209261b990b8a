#include "passes/Autodiff/Gradient.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Detached.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "llvm/ADT/MapVector.h"
#include <optional>

using namespace mlir;

namespace ztc {
namespace {

bool isReal(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Which values depend on a wanted value, and which ops lie between those and a seed.
struct Activity {
  DenseSet<Value> active;
  SmallVector<Operation *> path; ///< in block order

  Activity(Block &block, ArrayRef<Seed> seeds, ArrayRef<Value> wanted) {
    active.insert_range(wanted);
    for (Operation &op : block.without_terminator()) {
      if (!hasActiveOperand(&op))
        continue;
      for (Value result : op.getResults())
        if (isReal(result))
          active.insert(result);
    }
    DenseSet<Value> useful;
    for (const Seed &seed : seeds)
      useful.insert(seed.value);
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      auto onTheWay = [&](Value result) { return useful.contains(result) && active.contains(result); };
      if (!hasActiveOperand(&op) || llvm::none_of(op.getResults(), onTheWay))
        continue;
      path.push_back(&op);
      for (Value operand : op.getOperands())
        if (active.contains(operand))
          useful.insert(operand);
    }
    std::reverse(path.begin(), path.end());
  }

  bool hasActiveOperand(Operation *op) const {
    return !op->hasAttr(graph::kDetached) &&
           llvm::any_of(op->getOperands(), [&](Value operand) { return active.contains(operand); });
  }
};

/// Ops that say nothing of their derivative but how they are written out are: the derivative is that of what stands
/// there then.
LogicalResult writeOut(ArrayRef<Operation *> path, MutableArrayRef<Seed> seeds) {
  for (Operation *op : path) {
    auto macro = dyn_cast<DecomposableOpInterface>(op);
    if (!macro || isa<DifferentiableOpInterface>(op))
      continue;
    OpBuilder builder(op);
    FailureOr<SmallVector<Value>> values = macro.decompose(builder);
    if (failed(values))
      return op->emitOpError("has no derivative and cannot be written out, and a trainable parameter reaches the loss "
                             "through it");
    for (Seed &seed : seeds)
      if (seed.value.getDefiningOp() == op)
        seed.value = (*values)[cast<OpResult>(seed.value).getResultNumber()];
    op->replaceAllUsesWith(*values);
    op->erase();
  }
  return success();
}

LogicalResult checkDerivatives(ArrayRef<Operation *> path) {
  bool complete = true;
  for (Operation *op : path) {
    if (isa<DifferentiableOpInterface>(op))
      continue;
    op->emitOpError("has no derivative, and a trainable parameter reaches the loss through it");
    complete = false;
  }
  return success(complete);
}

/// Replaces the ops on the way by forms that keep what their derivative reads.
void addResiduals(ArrayRef<Operation *> path, MutableArrayRef<Seed> seeds) {
  for (Operation *op : path) {
    // The op may go, and with it the values that seeds name.
    SmallVector<std::pair<Seed *, unsigned>> seedResults;
    for (Seed &seed : seeds)
      if (seed.value.getDefiningOp() == op)
        seedResults.push_back({&seed, cast<OpResult>(seed.value).getResultNumber()});
    OpBuilder builder(op);
    Operation *replacement = cast<DifferentiableOpInterface>(op).withResiduals(builder);
    for (auto [seed, number] : seedResults)
      seed->value = replacement->getResult(number);
  }
}

/// The axis along which `op` takes a piece of its operand, whole in every other dimension; nothing where it does not.
std::optional<int64_t> sliceAxis(Operation *op) {
  auto slice = dyn_cast<graph::SliceOp>(op);
  if (!slice)
    return std::nullopt;
  ArrayRef<int64_t> whole = cast<RankedTensorType>(slice.getX().getType()).getShape(),
                    part = cast<RankedTensorType>(slice.getY().getType()).getShape();
  std::optional<int64_t> axis;
  for (auto [d, sizes] : llvm::enumerate(llvm::zip_equal(whole, part))) {
    if (std::get<0>(sizes) == std::get<1>(sizes))
      continue;
    if (axis)
      return std::nullopt;
    axis = int64_t(d);
  }
  return axis;
}

/// The cotangents of many pieces of one value. Each by itself is a tensor of the value's size, zeros but for the piece,
/// and their sum as many passes over it: together they are one tensor, written once.
class Pieces {
public:
  /// Of how many pieces it is worth it where they are not all of the value: fewer are summed, as other contributions
  /// are.
  static constexpr unsigned kLeast = 4;

  /// Whether the pieces that are taken of `value` are so many, or all of it, along one axis, and none has a part of
  /// another.
  static bool areOf(Value value) {
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    std::optional<int64_t> axis;
    for (Operation *user : value.getUsers()) {
      std::optional<int64_t> along = sliceAxis(user);
      if (!along)
        continue;
      if (axis && axis != along)
        return false;
      axis = along;
      ranges.push_back({cast<graph::SliceOp>(user).getOffsets()[*axis], sizeOf(user->getResult(0), *axis)});
    }
    llvm::sort(ranges);
    int64_t end = 0, covered = 0;
    for (auto [first, size] : ranges) {
      if (first < end)
        return false;
      end = first + size;
      covered += size;
    }
    return ranges.size() >= kLeast || (axis && covered == sizeOf(value, *axis));
  }

  void add(graph::SliceOp slice, Value cotangent) {
    axis = *sliceAxis(slice);
    whole = cast<RankedTensorType>(slice.getX().getType());
    parts.push_back({slice.getOffsets()[axis], cotangent});
  }

  /// One tensor of the value's type; zeros where no piece has a cotangent.
  Value joined(OpBuilder &builder, Location loc) {
    llvm::sort(parts, [](const Part &a, const Part &b) { return a.offset < b.offset; });
    SmallVector<Value> values;
    int64_t end = 0;
    auto fillTo = [&](int64_t next) {
      SmallVector<int64_t> shape(whole.getShape());
      shape[axis] = next - end;
      if (next > end)
        values.push_back(graph::makeConstant(builder, loc, whole.clone(shape), 0.0));
    };
    for (const Part &part : parts) {
      fillTo(part.offset);
      values.push_back(part.cotangent);
      end = part.offset + sizeOf(part.cotangent, axis);
    }
    fillTo(whole.getDimSize(axis));
    return graph::ConcatOp::create(builder, loc, whole, values, axis);
  }

private:
  static int64_t sizeOf(Value value, int64_t axis) { return cast<RankedTensorType>(value.getType()).getDimSize(axis); }

  struct Part {
    int64_t offset;
    Value cotangent;
  };
  int64_t axis = 0;
  RankedTensorType whole;
  SmallVector<Part> parts;
};

/// The cotangents found so far, and one op's view of them.
class ReverseContext : public VjpContext {
public:
  ReverseContext(OpBuilder &builder, const Activity &activity) : builder(builder), activity(activity) {}

  void enter(Operation *next) { op = next; }

  /// Keeps the cotangent of a piece for later; false where the op takes none of many.
  bool takePiece() {
    auto slice = dyn_cast<graph::SliceOp>(op);
    if (!slice || !sliceAxis(op) || isa<BlockArgument>(slice.getX()) || !wants(0) || !Pieces::areOf(slice.getX()))
      return false;
    pieces[slice.getX()].add(slice, cotangent(0));
    return true;
  }

  /// Joins the pieces of which the value's cotangent consists, where there are any.
  void settle(Value value) {
    auto found = pieces.find(value);
    if (found == pieces.end())
      return;
    Value joined = found->second.joined(builder, value.getLoc());
    pieces.erase(found);
    add(value, joined, joined.getLoc());
  }

  void add(Value value, Value contribution, Location loc) {
    Value &cotangent = cotangents[value];
    if (!cotangent)
      cotangent = contribution;
    else if (isa<BlockArgument>(value))
      cotangent = graph::AccumulateOp::create(builder, loc, cotangent.getType(), cotangent, contribution, false);
    else
      cotangent = graph::AddOp::create(builder, loc, cotangent.getType(), cotangent, contribution);
  }
  Value cotangentOf(Value value) const { return cotangents.lookup(value); }
  bool hasFailed() const { return rejected; }

  Value operand(unsigned index) override { return op->getOperand(index); }
  Value result(unsigned index) override { return op->getResult(index); }
  Value cotangent(unsigned resultIndex) override { return cotangentOf(op->getResult(resultIndex)); }
  bool wants(unsigned operandIndex) override { return activity.active.contains(op->getOperand(operandIndex)); }
  void accumulate(unsigned operandIndex, Value contribution) override {
    Value target = op->getOperand(operandIndex);
    if (contribution.getType() == target.getType())
      return add(target, contribution, op->getLoc());
    op->emitOpError("derivative gives operand ")
        << operandIndex << " of type " << target.getType() << " a cotangent of type " << contribution.getType();
    rejected = true;
  }

private:
  OpBuilder &builder;
  const Activity &activity;
  DenseMap<Value, Value> cotangents;
  llvm::MapVector<Value, Pieces> pieces;
  Operation *op = nullptr;
  bool rejected = false;
};

/// The derivative of what is not rounded is not either: the ops after `last`. A product of narrow factors has narrow
/// cotangents.
void keepWide(Operation *of, Operation *last) {
  const bool hasWideFactors = of->hasAttr(graph::kWideFactors);
  if (!of->hasAttr(graph::kWide) || (isa<graph::MatmulOp>(of) && !hasWideFactors))
    return;
  auto yes = UnitAttr::get(of->getContext());
  for (Operation *op = last->getNextNode(); !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode()) {
    if (isa<graph::ConstantOp>(op))
      continue;
    op->setAttr(graph::kWide, yes);
    if (hasWideFactors && isa<graph::MatmulOp>(op))
      op->setAttr(graph::kWideFactors, yes);
  }
}

} // namespace

FailureOr<SmallVector<Value>> emitGradients(Block &block, ArrayRef<Seed> seeds, ArrayRef<Value> wanted) {
  SmallVector<Seed> liveSeeds(seeds);
  if (failed(writeOut(Activity(block, liveSeeds, wanted).path, liveSeeds)))
    return failure();
  {
    Activity forward(block, liveSeeds, wanted);
    if (failed(checkDerivatives(forward.path)))
      return failure();
    addResiduals(forward.path, liveSeeds);
  }
  Activity activity(block, liveSeeds, wanted);
  OpBuilder builder(block.getTerminator());
  ReverseContext context(builder, activity);
  for (const Seed &seed : liveSeeds)
    if (activity.active.contains(seed.value))
      context.add(seed.value, seed.cotangent, seed.cotangent.getLoc());
  bool complete = true;
  for (Operation *op : llvm::reverse(activity.path)) {
    builder.setInsertionPoint(block.getTerminator());
    Operation *last = block.getTerminator()->getPrevNode();
    for (Value result : op->getResults())
      context.settle(result);
    if (llvm::none_of(op->getResults(), [&](Value result) { return context.cotangentOf(result) != nullptr; }))
      continue;
    context.enter(op);
    if (!context.takePiece())
      complete &= succeeded(cast<DifferentiableOpInterface>(op).buildVjp(builder, context));
    keepWide(op, last);
  }
  if (!complete || context.hasFailed())
    return failure();
  SmallVector<Value> gradients;
  builder.setInsertionPoint(block.getTerminator());
  for (Value value : wanted) {
    context.settle(value);
    gradients.push_back(context.cotangentOf(value));
  }
  return gradients;
}

} // namespace ztc
