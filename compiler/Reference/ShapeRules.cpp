// Reference rules of constants, index values and ops that move or reduce data.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc {
namespace {

LogicalResult runConstant(graph::ConstantOp op, Operands, Results results) {
  FailureOr<Tensor> value = Tensor::fromAttribute(op.getValue());
  if (failed(value))
    return op.emitOpError("holds an attribute the reference interpreter cannot read");
  results[0] = std::move(*value);
  return success();
}

LogicalResult runIota(Operation *op, Operands, Results results, Interpreter &interpreter) {
  auto iota = cast<graph::IotaOp>(op);
  auto type = cast<RankedTensorType>(iota.getY().getType());
  int64_t start = 0;
  if (!type.hasStaticShape()) {
    FailureOr<FlatRange> range = interpreter.flatRange(op, type);
    if (failed(range))
      return failure();
    start = range->start;
  }
  const int64_t stride = results[0].strides()[iota.getDimension()], size = results[0].shape[iota.getDimension()];
  for (int64_t i = 0, n = results[0].count(); i < n; ++i)
    results[0].integers[i] = start + i / stride % size;
  return success();
}

void runTranspose(graph::TransposeOp op, Operands operands, Results results) {
  const TensorShape natural = operands[0]->strides();
  TensorShape strides;
  for (int64_t dimension : op.getPermutation())
    strides.push_back(natural[dimension]);
  gatherStrided(*operands[0], 0, strides, results[0]);
}

LogicalResult runBroadcast(graph::BroadcastOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0];
  if (results[0].rank() != cast<ShapedType>(op.getY().getType()).getRank())
    return op.emitOpError("has no reference rule for a size that the type leaves open");
  gatherStrided(x, 0, broadcastStrides(x.shape, results[0].shape), results[0]);
  return success();
}

void runSlice(graph::SliceOp op, Operands operands, Results results) {
  const TensorShape strides = operands[0]->strides();
  gatherStrided(*operands[0], linearIndex(op.getOffsets(), strides), strides, results[0]);
}

void runPad(graph::PadOp op, Operands operands, Results results) {
  const TensorShape strides = results[0].strides();
  scatterStrided(*operands[0], results[0], linearIndex(op.getLow(), strides), strides);
}

void runConcat(graph::ConcatOp op, Operands operands, Results results) {
  const TensorShape strides = results[0].strides();
  int64_t start = 0;
  for (const Tensor *input : operands) {
    scatterStrided(*input, results[0], start, strides);
    start += input->shape[op.getAxis()] * strides[op.getAxis()];
  }
}

/// Folds every element into the result element it belongs to; floats and integers start from the two numbers given.
template <typename Fold>
void runReduce(Operation *op, ArrayRef<int64_t> axes, Operands operands, Results results, double start,
               int64_t integerStart, Fold fold) {
  const Tensor &x = *operands[0];
  TensorShape shape = x.shape;
  for (int64_t axis : axes)
    shape[axis] = 1;
  results[0] = Tensor(shape, cast<ShapedType>(op->getResult(0).getType()).getElementType());
  Tensor &y = results[0];
  TensorShape strides = y.strides();
  for (int64_t axis : axes)
    strides[axis] = 0;
  auto reduce = [&](const auto &from, auto &to, auto first) {
    std::fill(to.begin(), to.end(), first);
    Odometer odometer(x.shape, {strides});
    for (int64_t i = 0, n = x.count(); i < n; ++i, odometer.advance()) {
      auto &sum = to[odometer.offset(0)];
      sum = fold(sum, from[i]);
    }
  };
  if (x.isReal())
    reduce(x.reals, y.reals, start);
  else
    reduce(x.integers, y.integers, integerStart);
}

} // namespace

void addShapeRules(RuleTable &table) {
  table.add<graph::ConstantOp>(runConstant);
  table.addNamed(graph::IotaOp::getOperationName(), runIota);
  table.add<graph::ReshapeOp>([](graph::ReshapeOp op, Operands operands, Results results) {
    results[0] = operands[0]->reshaped(cast<ShapedType>(op.getY().getType()).getShape());
  });
  table.add<graph::TransposeOp>(runTranspose);
  table.add<graph::BroadcastOp>(runBroadcast);
  table.add<graph::SliceOp>(runSlice);
  table.add<graph::PadOp>(runPad);
  table.add<graph::ConcatOp>(runConcat);
  table.add<graph::ReduceSumOp>([](graph::ReduceSumOp op, Operands operands, Results results) {
    runReduce(op, op.getAxes(), operands, results, 0.0, 0, [](auto a, auto b) { return a + b; });
  });
  table.add<graph::ReduceMaxOp>([](graph::ReduceMaxOp op, Operands operands, Results results) {
    runReduce(op, op.getAxes(), operands, results, -std::numeric_limits<double>::infinity(),
              std::numeric_limits<int64_t>::min(),
              [](auto a, auto b) { return a != a || b != b ? a + b : std::max(a, b); }); // NaN stays
  });
  table.add<graph::BarrierOp>([](graph::BarrierOp, Operands operands, Results results) { results[0] = *operands[0]; });
}

} // namespace ztc
