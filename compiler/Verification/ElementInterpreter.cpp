#include "compiler/Verification/ElementInterpreter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/Format/BlockState.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ztc::verification {

int64_t ChosenElements::indexOf(int64_t position) const {
  return llvm::lower_bound(positions, position) - positions.begin();
}

namespace {

using Positions = std::vector<int64_t>;

int64_t coordinate(int64_t position, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, int64_t dimension) {
  return position / strides[dimension] % shape[dimension];
}

/// Where an element of a result stands before an op moves it: in which operand, and there. Operand -1: it is a zero.
struct Moved {
  int64_t operand = 0, position = 0;
};

class ElementRun {
public:
  ElementRun(Block &region, const ElementSource &source, std::string &why)
      : region(region), source(source), why(why), interpreter([] {
          InterpreterOptions options;
          options.precision = Precision::F32;
          return options;
        }()) {}

  FailureOr<DenseMap<Value, ChosenElements>> run(const WantedElements &chosen) {
    wanted = chosen;
    for (Operation &op : llvm::reverse(region.without_terminator()))
      if (isWanted(op) && failed(demand(op)))
        return failure();
    for (BlockArgument argument : region.getArguments())
      if (auto found = wanted.find(argument); found != wanted.end()) {
        settle(found->second);
        known[argument] = {found->second, source.operand(argument.getArgNumber(), found->second)};
      }
    for (Operation &op : region.without_terminator())
      if (isWanted(op) && failed(compute(op)))
        return failure();
    DenseMap<Value, ChosenElements> results;
    for (const auto &[value, positions] : chosen)
      results[value] = known[value];
    return results;
  }

private:
  bool isWanted(Operation &op) const {
    return llvm::any_of(op.getResults(), [&](Value result) { return wanted.contains(result); });
  }
  SmallVector<int64_t> shapeOf(Value value) const {
    SmallVector<int64_t> shape(cast<RankedTensorType>(value.getType()).getShape());
    for (int64_t &size : shape)
      if (ShapedType::isDynamic(size))
        size = source.length;
    return shape;
  }
  static void settle(Positions &positions) {
    if (!llvm::is_sorted(positions))
      llvm::sort(positions);
    positions.erase(llvm::unique(positions), positions.end());
  }
  LogicalResult refuse(Operation &op, StringRef what) {
    why = (op.getName().getStringRef() + " " + what).str();
    return failure();
  }
  LogicalResult want(Operation &op, Value value, ArrayRef<int64_t> positions) {
    total += int64_t(positions.size());
    if (total > kMostChosen)
      return refuse(op, "of chosen elements takes too many others");
    Positions &all = wanted[value];
    all.insert(all.end(), positions.begin(), positions.end());
    return success();
  }
  /// Of all results of `op`: what is wanted of any of them.
  Positions positionsOf(Operation &op) {
    Positions all;
    for (Value result : op.getResults())
      if (auto found = wanted.find(result); found != wanted.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
    settle(all);
    return all;
  }

  static bool isMove(Operation &op) {
    return isa<graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp, graph::SliceOp, graph::PadOp, graph::ConcatOp,
               graph::BarrierOp>(op);
  }
  std::function<Moved(int64_t)> movesOf(Operation &op) const;
  /// Offsets of the elements that a reduction joins, from the first one.
  Positions reducedOffsets(Operation &op) const;
  int64_t firstReduced(Operation &op, int64_t position) const;
  static SmallVector<int64_t> axesOf(Operation &op) {
    if (auto sum = dyn_cast<graph::ReduceSumOp>(op))
      return SmallVector<int64_t>(sum.getAxes());
    return SmallVector<int64_t>(cast<graph::ReduceMaxOp>(op).getAxes());
  }

  LogicalResult demand(Operation &op);
  LogicalResult demandBlocks(graph::EncodeBlocksOp op, ArrayRef<int64_t> positions);
  LogicalResult compute(Operation &op);
  FailureOr<Tensor> encode(graph::EncodeBlocksOp op, ArrayRef<int64_t> positions);
  Tensor moved(Operation &op, ArrayRef<int64_t> positions);
  FailureOr<Tensor> constant(graph::ConstantOp op, size_t count);
  Tensor iota(graph::IotaOp op, ArrayRef<int64_t> positions) const;
  FailureOr<SmallVector<Tensor>> byRule(Operation &op, ArrayRef<Tensor> operands, bool isReduction);

  Block &region;
  const ElementSource &source;
  std::string &why;
  Interpreter interpreter;
  WantedElements wanted;
  DenseMap<Value, ChosenElements> known;
  int64_t total = 0;
};

std::function<Moved(int64_t)> ElementRun::movesOf(Operation &op) const {
  const SmallVector<int64_t> shape = shapeOf(op.getResult(0)), strides = rowMajorStrides(shape);
  const SmallVector<int64_t> from = shapeOf(op.getOperand(0)), fromStrides = rowMajorStrides(from);
  // A position of the result by its coordinates, each moved along a dimension of the operand.
  auto along = [=](const SmallVector<int64_t> &dimension,
                   const SmallVector<int64_t> &offset) -> std::function<Moved(int64_t)> {
    return [=](int64_t position) {
      Moved moved;
      for (size_t d = 0; d < dimension.size(); ++d) {
        if (dimension[d] < 0)
          continue;
        const int64_t at = coordinate(position, shape, strides, int64_t(d)) + (offset.empty() ? 0 : offset[d]);
        if (at < 0 || at >= from[dimension[d]])
          return Moved{-1, 0};
        moved.position += at * fromStrides[dimension[d]];
      }
      return moved;
    };
  };
  const SmallVector<int64_t> same = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size())));
  if (auto transpose = dyn_cast<graph::TransposeOp>(op))
    return along(SmallVector<int64_t>(transpose.getPermutation()), {});
  if (isa<graph::BroadcastOp>(op)) {
    SmallVector<int64_t> dimension(shape.size(), -1); // aligned from the right; what has size 1 is repeated
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] != 1)
        dimension[shape.size() - from.size() + d] = int64_t(d);
    return along(dimension, {});
  }
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return along(same, SmallVector<int64_t>(slice.getOffsets()));
  if (auto pad = dyn_cast<graph::PadOp>(op)) {
    SmallVector<int64_t> offset;
    for (int64_t low : pad.getLow())
      offset.push_back(-low);
    return along(same, offset);
  }
  if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
    const int64_t axis = concat.getAxis();
    SmallVector<int64_t> sizes;
    for (Value input : concat.getInputs())
      sizes.push_back(shapeOf(input)[axis]);
    return [=](int64_t position) {
      const int64_t inner = strides[axis], outer = position / (inner * shape[axis]);
      int64_t at = coordinate(position, shape, strides, axis), number = 0;
      while (at >= sizes[number])
        at -= sizes[number++];
      return Moved{number, (outer * sizes[number] + at) * inner + position % inner};
    };
  }
  return [](int64_t position) { return Moved{0, position}; }; // reshape, barrier
}

Positions ElementRun::reducedOffsets(Operation &op) const {
  const SmallVector<int64_t> from = shapeOf(op.getOperand(0)), strides = rowMajorStrides(from);
  Positions offsets{0};
  for (int64_t axis : axesOf(op)) {
    Positions next;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < from[axis]; ++i)
        next.push_back(offset + i * strides[axis]);
    offsets = std::move(next);
  }
  return offsets;
}

int64_t ElementRun::firstReduced(Operation &op, int64_t position) const {
  SmallVector<int64_t> from = shapeOf(op.getOperand(0)), shape = from;
  for (int64_t axis : axesOf(op))
    shape[axis] = 1;
  const SmallVector<int64_t> fromStrides = rowMajorStrides(from), strides = rowMajorStrides(shape);
  int64_t first = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    first += coordinate(position, shape, strides, int64_t(d)) * fromStrides[d];
  return first;
}

/// All elements of the blocks of states that `positions` are in; the last block of `length` may be short.
Positions wholeBlocks(ArrayRef<int64_t> positions, int64_t length) {
  constexpr auto block = int64_t(kStateBlock);
  Positions all;
  for (int64_t position : positions) // ascending
    if (const int64_t first = position / block * block; all.empty() || all.back() < first)
      for (int64_t i = first; i < std::min(first + block, length); ++i)
        all.push_back(i);
  return all;
}

LogicalResult ElementRun::demandBlocks(graph::EncodeBlocksOp op, ArrayRef<int64_t> positions) {
  const Positions blocks = wholeBlocks(positions, shapeOf(op.getX()).front());
  if (failed(want(*op, op.getX(), blocks)) || failed(want(*op, op.getOld(), blocks)))
    return failure();
  return want(*op, op.getProceed(), blocks);
}

LogicalResult ElementRun::demand(Operation &op) {
  const Positions positions = positionsOf(op);
  for (Value result : op.getResults())
    wanted[result] = positions;
  if (source.readOps.contains(&op) || isa<graph::ConstantOp, graph::IotaOp>(op))
    return success();
  if (isMove(op)) {
    const std::function<Moved(int64_t)> moves = movesOf(op);
    std::vector<Positions> of(op.getNumOperands());
    for (int64_t position : positions)
      if (const Moved from = moves(position); from.operand >= 0)
        of[size_t(from.operand)].push_back(from.position);
    for (auto [operand, list] : llvm::zip(op.getOperands(), of)) {
      settle(list);
      if (failed(want(op, operand, list)))
        return failure();
    }
    return success();
  }
  if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op)) {
    int64_t joined = 1;
    for (int64_t axis : axesOf(op))
      joined *= shapeOf(op.getOperand(0))[axis];
    if (joined > kMostChosen / std::max<int64_t>(int64_t(positions.size()), 1))
      return refuse(op, "joins too many elements");
    const Positions offsets = reducedOffsets(op);
    Positions all;
    all.reserve(positions.size() * offsets.size());
    for (int64_t position : positions)
      for (int64_t first = firstReduced(op, position); int64_t offset : offsets)
        all.push_back(first + offset);
    settle(all);
    return want(op, op.getOperand(0), all);
  }
  if (auto encoded = dyn_cast<graph::EncodeBlocksOp>(op))
    return demandBlocks(encoded, positions);
  if (!op.hasTrait<OpTrait::Elementwise>() && op.getName().getStringRef() != "graph.accumulate")
    return refuse(op, "is not elementwise");
  for (Value operand : op.getOperands())
    if (shapeOf(operand) != shapeOf(op.getResult(0)))
      return refuse(op, "has operands of another shape than its result");
  for (Value operand : op.getOperands())
    if (failed(want(op, operand, positions)))
      return failure();
  return success();
}

/// Those of `from` at ascending `positions`, which are among its own.
Tensor chosenAt(const ChosenElements &from, ArrayRef<int64_t> positions) {
  Tensor chosen({int64_t(positions.size())}, from.values.elementType);
  for (auto [number, position] : llvm::enumerate(positions)) {
    const auto at = size_t(from.indexOf(position));
    if (chosen.isReal())
      chosen.reals[number] = from.values.reals[at];
    else
      chosen.integers[number] = from.values.integers[at];
  }
  return chosen;
}

FailureOr<Tensor> ElementRun::encode(graph::EncodeBlocksOp op, ArrayRef<int64_t> positions) {
  const Positions blocks = wholeBlocks(positions, shapeOf(op.getX()).front());
  SmallVector<Tensor> operands;
  for (Value operand : op->getOperands())
    operands.push_back(chosenAt(known[operand], blocks));
  FailureOr<SmallVector<Tensor>> results = byRule(*op, operands, /*isReduction=*/false);
  if (failed(results))
    return failure();
  return chosenAt({blocks, std::move(results->front())}, positions);
}

Tensor ElementRun::moved(Operation &op, ArrayRef<int64_t> positions) {
  Tensor result({int64_t(positions.size())}, getElementTypeOrSelf(op.getResult(0).getType()));
  const std::function<Moved(int64_t)> moves = movesOf(op);
  for (auto [number, position] : llvm::enumerate(positions)) {
    const Moved from = moves(position);
    if (from.operand < 0)
      continue;
    const ChosenElements &operand = known[op.getOperand(unsigned(from.operand))];
    const size_t at = size_t(operand.indexOf(from.position));
    if (result.isReal())
      result.reals[number] = operand.values.reals[at];
    else
      result.integers[number] = operand.values.integers[at];
  }
  return result;
}

FailureOr<Tensor> ElementRun::constant(graph::ConstantOp op, size_t count) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || !dense.isSplat())
    return refuse(*op, "is a table inside a group");
  FailureOr<Tensor> one = Tensor::fromAttribute(dense.resizeSplat(RankedTensorType::get({1}, dense.getElementType())));
  if (failed(one))
    return refuse(*op, "holds an attribute that the interpreter cannot read");
  Tensor result({int64_t(count)}, one->elementType);
  if (result.isReal())
    llvm::fill(result.reals, one->reals.front());
  else
    llvm::fill(result.integers, one->integers.front());
  return result;
}

Tensor ElementRun::iota(graph::IotaOp op, ArrayRef<int64_t> positions) const {
  const SmallVector<int64_t> shape = shapeOf(op.getY()), strides = rowMajorStrides(shape);
  const bool isOpen = !cast<RankedTensorType>(op.getY().getType()).hasStaticShape();
  Tensor result({int64_t(positions.size())}, getElementTypeOrSelf(op.getY().getType()));
  for (auto [value, position] : llvm::zip(result.integers, positions))
    value = (isOpen ? source.start : 0) + coordinate(position, shape, strides, int64_t(op.getDimension()));
  return result;
}

FailureOr<SmallVector<Tensor>> ElementRun::byRule(Operation &op, ArrayRef<Tensor> operands, bool isReduction) {
  Block block;
  IRMapping mapping;
  for (auto [operand, tensor] : llvm::zip(op.getOperands(), operands))
    mapping.map(operand, block.addArgument(tensor.type(), op.getLoc()));
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(&block);
  Operation *small = builder.clone(op, mapping);
  SmallVector<int64_t> shape = operands.front().shape;
  if (isReduction)
    shape.back() = 1;
  for (OpResult result : small->getResults())
    result.setType(RankedTensorType::get(shape, getElementTypeOrSelf(result.getType())));
  if (auto sum = dyn_cast<graph::ReduceSumOp>(small))
    sum.setAxes({1});
  if (auto most = dyn_cast<graph::ReduceMaxOp>(small))
    most.setAxes({1});
  graph::YieldOp::create(builder, op.getLoc(), small->getResults());
  SmallVector<Tensor> arguments(operands.begin(), operands.end());
  ScopedDiagnosticHandler handler(op.getContext(), [&](Diagnostic &diagnostic) {
    why = diagnostic.str();
    return success();
  });
  return interpreter.run(block, arguments);
}

LogicalResult ElementRun::compute(Operation &op) {
  const Positions &positions = wanted[op.getResult(0)];
  const auto count = int64_t(positions.size());
  auto keep = [&](Value result, Tensor values) {
    const Type element = getElementTypeOrSelf(result.getType());
    for (double &x : values.reals)
      x = roundTo(x, element);
    values.elementType = element;
    values.shape = {count};
    known[result] = {positions, std::move(values)};
    return success();
  };
  if (count == 0) {
    for (Value result : op.getResults())
      known[result] = {{}, Tensor({0}, getElementTypeOrSelf(result.getType()))};
    return success();
  }
  if (source.readOps.contains(&op))
    return keep(op.getResult(0), source.read(&op, positions));
  if (auto value = dyn_cast<graph::ConstantOp>(op)) {
    FailureOr<Tensor> splat = constant(value, positions.size());
    return failed(splat) ? failure() : keep(value.getY(), std::move(*splat));
  }
  if (auto index = dyn_cast<graph::IotaOp>(op))
    return keep(index.getY(), iota(index, positions));
  if (isMove(op))
    return keep(op.getResult(0), moved(op, positions));
  if (auto encoded = dyn_cast<graph::EncodeBlocksOp>(op)) {
    FailureOr<Tensor> values = encode(encoded, positions);
    return failed(values) ? failure() : keep(encoded.getY(), std::move(*values));
  }
  const bool isReduction = isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op);
  SmallVector<Tensor> operands;
  if (isReduction) {
    const Positions offsets = reducedOffsets(op);
    const ChosenElements &x = known[op.getOperand(0)];
    Tensor rows({count, int64_t(offsets.size())}, x.values.elementType);
    for (size_t row = 0, to = 0; row < positions.size(); ++row)
      for (int64_t first = firstReduced(op, positions[row]); int64_t offset : offsets) {
        const size_t at = size_t(x.indexOf(first + offset));
        if (rows.isReal())
          rows.reals[to++] = x.values.reals[at];
        else
          rows.integers[to++] = x.values.integers[at];
      }
    operands.push_back(std::move(rows));
  } else {
    for (Value operand : op.getOperands()) // of what others want of it too, only these
      operands.push_back(chosenAt(known[operand], positions));
  }
  FailureOr<SmallVector<Tensor>> results = byRule(op, operands, isReduction);
  if (failed(results))
    return failure();
  for (auto [result, values] : llvm::zip(op.getResults(), *results))
    if (failed(keep(result, std::move(values))))
      return failure();
  return success();
}

} // namespace

FailureOr<DenseMap<Value, ChosenElements>> interpretElements(Block &region, const WantedElements &wanted,
                                                             const ElementSource &source, std::string &why) {
  return ElementRun(region, source, why).run(wanted);
}

} // namespace ztc::verification
