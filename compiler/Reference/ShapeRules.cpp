// Reference rules of constants, index values and ops that move or reduce data.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc {
namespace {

void copyElement(const Tensor &from, int64_t source, Tensor &to, int64_t target) {
  if (from.isReal())
    to.reals[target] = from.reals[source];
  else
    to.integers[target] = from.integers[source];
}

int64_t linearIndex(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t linear = 0;
  for (auto [i, stride] : llvm::zip(index, strides))
    linear += i * stride;
  return linear;
}

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
  forEachIndex(results[0].shape, [&](int64_t linear, ArrayRef<int64_t> index) {
    results[0].integers[linear] = start + index[iota.getDimension()];
  });
  return success();
}

void runTranspose(graph::TransposeOp op, Operands operands, Results results) {
  SmallVector<int64_t> strides = operands[0]->strides();
  forEachIndex(results[0].shape, [&](int64_t linear, ArrayRef<int64_t> index) {
    int64_t source = 0;
    for (auto [i, dimension] : llvm::enumerate(op.getPermutation()))
      source += index[i] * strides[dimension];
    copyElement(*operands[0], source, results[0], linear);
  });
}

LogicalResult runBroadcast(graph::BroadcastOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0];
  if (results[0].rank() != cast<ShapedType>(op.getY().getType()).getRank())
    return op.emitOpError("has no reference rule for a size that the type leaves open");
  SmallVector<int64_t> strides = x.strides();
  int64_t added = results[0].rank() - x.rank();
  forEachIndex(results[0].shape, [&](int64_t linear, ArrayRef<int64_t> index) {
    int64_t source = 0;
    for (int64_t d = 0; d < x.rank(); ++d)
      source += (x.shape[d] == 1 ? 0 : index[added + d]) * strides[d];
    copyElement(x, source, results[0], linear);
  });
  return success();
}

void runSlice(graph::SliceOp op, Operands operands, Results results) {
  SmallVector<int64_t> strides = operands[0]->strides();
  int64_t start = linearIndex(op.getOffsets(), strides);
  forEachIndex(results[0].shape, [&](int64_t linear, ArrayRef<int64_t> index) {
    copyElement(*operands[0], start + linearIndex(index, strides), results[0], linear);
  });
}

void runPad(graph::PadOp op, Operands operands, Results results) {
  SmallVector<int64_t> strides = results[0].strides();
  int64_t start = linearIndex(op.getLow(), strides);
  forEachIndex(operands[0]->shape, [&](int64_t linear, ArrayRef<int64_t> index) {
    copyElement(*operands[0], linear, results[0], start + linearIndex(index, strides));
  });
}

void runConcat(graph::ConcatOp op, Operands operands, Results results) {
  SmallVector<int64_t> strides = results[0].strides();
  int64_t start = 0;
  for (const Tensor *input : operands) {
    forEachIndex(input->shape, [&](int64_t linear, ArrayRef<int64_t> index) {
      copyElement(*input, linear, results[0], start + linearIndex(index, strides));
    });
    start += input->shape[op.getAxis()] * strides[op.getAxis()];
  }
}

/// Folds every element into the result element it belongs to; floats and integers start from the two numbers given.
template <typename Fold>
void runReduce(Operation *op, ArrayRef<int64_t> axes, Operands operands, Results results, double start,
               int64_t integerStart, Fold fold) {
  const Tensor &x = *operands[0];
  SmallVector<int64_t> shape = x.shape;
  for (int64_t axis : axes)
    shape[axis] = 1;
  results[0] = Tensor(shape, cast<ShapedType>(op->getResult(0).getType()).getElementType());
  Tensor &y = results[0];
  SmallVector<int64_t> strides = y.strides();
  for (int64_t axis : axes)
    strides[axis] = 0;
  auto reduce = [&](const auto &from, auto &to, auto first) {
    std::fill(to.begin(), to.end(), first);
    forEachIndex(x.shape, [&](int64_t linear, ArrayRef<int64_t> index) {
      auto &sum = to[linearIndex(index, strides)];
      sum = fold(sum, from[linear]);
    });
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
