// Emission of what picks by value or by place: largest elements, one-hot rows, triangles, running sums.
#include "frontends/onnx/EmitPlaces.h"
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// Of more rounds of "the largest, then without it", a model should export another form.
constexpr int64_t kMostPicks = 256;

/// The index of the largest element of the last dimension, as f32 with size 1 there: the first (last) of equals. A NaN
/// is larger than any number, as PyTorch has it: what is chosen by it is not finite either, and the index is a place.
Expr indexOfLargest(const Expr &x, bool last) {
  int64_t n = x.dim(x.rank() - 1);
  Expr most = reduceMaxLast(x), isMost = x == broadcastLike(most, x);
  Expr place = x.with(iotaOf(x.builder(), x.loc(), x.type().getShape(), x.rank() - 1));
  place = castTo(place, x.builder().getF32Type());
  Expr rank = last ? place : double(n - 1) - place;
  Expr isNumber = x <= constantLike(x, std::numeric_limits<double>::infinity());
  Expr found = reduceMaxLast(select(isMost, rank, select(isNumber, zeroLike(rank), rank)));
  return last ? found : double(n - 1) - found;
}

} // namespace

LargestOfRows largestOfRows(const Expr &rows, const Expr &order, int64_t k) {
  LargestOfRows found;
  Expr left = order,
       place = castTo(rows.with(iotaOf(rows.builder(), rows.loc(), rows.type().getShape(), rows.rank() - 1)),
                      left.elementType());
  for (int64_t round = 0; round < k; ++round) {
    Expr index = indexOfLargest(left, /*last=*/false), isIt = place == broadcastLike(index, left);
    found.values.push_back(reduceSumLast(select(isIt, rows, zeroLike(rows))));
    found.indices.push_back(castTo(index, rows.builder().getI32Type()));
    left = select(isIt, constantLike(left, -std::numeric_limits<double>::infinity()), left);
  }
  return found;
}

namespace {

/// Elements as floats of the same order; integers beyond 2^24 may tie.
Expr asReal(const Expr &x) {
  return isa<FloatType>(x.elementType()) ? x : castTo(x, x.builder().getF32Type());
}

template <bool largest> LogicalResult argument(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", 0);
  axis += axis < 0 ? typeOf(x).getRank() : 0;
  SmallVector<int64_t> inverse;
  Expr rows = asReal(e.expr(axisToBack(e.builder, e.loc, x, axis, inverse)));
  Expr index = indexOfLargest(largest ? rows : -rows, e.node->integer("select_last_index", 0) != 0);
  mlir::Value y = transposeTo(e.builder, e.loc, castTo(index, e.builder.getI32Type()).value(), inverse);
  e.define(0, reshapeTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

LogicalResult topK(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", -1), rank = typeOf(x).getRank();
  axis += axis < 0 ? rank : 0;
  int64_t k = e.outputShape()[axis];
  if (k > kMostPicks)
    return e.fail("asks for the largest " + llvm::Twine(k) + " elements; ztc finds at most " + llvm::Twine(kMostPicks));
  bool largest = e.node->integer("largest", 1) != 0;
  SmallVector<int64_t> inverse;
  Expr rows = e.expr(axisToBack(e.builder, e.loc, x, axis, inverse)), left = asReal(rows);
  if (!largest)
    left = -left;
  LargestOfRows found = largestOfRows(rows, left, k);
  auto joined = [&](ArrayRef<Expr> parts) {
    SmallVector<int64_t> shape(rows.type().getShape());
    shape.back() = k;
    if (parts.empty())
      return sliceOf(e.builder, e.loc, rows.value(), SmallVector<int64_t>(rank, 0), shape);
    return transposeTo(e.builder, e.loc, graph::concat(parts, rank - 1).value(), inverse);
  };
  e.define(0, joined(found.values));
  if (e.hasOutput(1))
    e.define(1, k ? joined(found.indices)
                  : splat(e.builder, e.loc, RankedTensorType::get(e.outputShape(1), e.builder.getI32Type()), 0));
  return success();
}

/// 1 at the first largest element of the axis, 0 elsewhere; the derivative is 0.
LogicalResult hardmax(Emitter &e) {
  mlir::Value operand = e.operand(0);
  if (!operand)
    return failure();
  SmallVector<int64_t> inverse;
  mlir::Value x = e.rowsOfAxis(operand, inverse);
  Expr rows = e.expr(x),
       place = castTo(e.expr(iotaOf(e.builder, e.loc, shapeOf(x), typeOf(x).getRank() - 1)), e.builder.getF32Type());
  Expr isIt = place == broadcastLike(indexOfLargest(rows, /*last=*/false), rows);
  Expr y = select(isIt, constantLike(rows, 1), zeroLike(rows));
  e.define(0, e.fromRowsOfAxis(y.value(), inverse));
  return success();
}

/// values[1] where the class along the new axis is the index, else values[0].
LogicalResult oneHot(Emitter &e) {
  mlir::Value indices = e.operand(0), values = indices ? e.operand(2) : nullptr;
  if (!values)
    return failure();
  int64_t axis = e.node->integer("axis", -1), rank = int64_t(e.outputShape().size());
  axis += axis < 0 ? rank : 0;
  SmallVector<int64_t> shape(shapeOf(indices));
  shape.insert(shape.begin() + axis, 1);
  int64_t depth = e.outputShape()[axis];
  Expr which =
      castTo(e.expr(broadcastTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, indices, shape), e.outputShape())),
             e.builder.getI32Type());
  which = select(which < zeroLike(which), which + double(depth), which);
  Expr place = e.expr(iotaOf(e.builder, e.loc, e.outputShape(), axis));
  auto value = [&](int64_t i) {
    mlir::Value one = reshapeTo(e.builder, e.loc, sliceOf(e.builder, e.loc, values, {i}, {1}), {});
    return e.expr(broadcastTo(e.builder, e.loc, one, e.outputShape()));
  };
  Expr off = value(0), on = value(1);
  e.define(0, select(place == which, on, off).value());
  return success();
}

LogicalResult triangle(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t k = 0, rank = typeOf(x).getRank();
  if (e.node->hasInput(1)) {
    TensorRef diagonal = e.constant(1);
    if (!diagonal)
      return failure();
    k = diagonal->count() ? diagonal->integer(0) : 0;
  }
  if (rank < 2)
    return e.fail("takes a triangle of a tensor of rank " + llvm::Twine(rank));
  k = std::clamp<int64_t>(k, -(1 << 30), 1 << 30);
  Expr v = e.expr(x), row = e.expr(iotaOf(e.builder, e.loc, shapeOf(x), rank - 2)) + double(k),
       column = e.expr(iotaOf(e.builder, e.loc, shapeOf(x), rank - 1));
  bool upper = e.node->integer("upper", 1) != 0;
  e.define(0, select(upper ? column >= row : column <= row, v, zeroLike(v)).value());
  return success();
}

/// Sums (products) over distances 1, 2, 4, ...: log n ops, and no tensor of n^2.
template <bool product> LogicalResult running(Emitter &e) {
  mlir::Value x = e.operand(0);
  TensorRef axisTensor = x ? e.constant(1) : nullptr;
  if (!axisTensor || !axisTensor->count())
    return axisTensor ? e.fail("has no axis") : failure();
  int64_t rank = typeOf(x).getRank(), axis = axisTensor->integer(0);
  axis += axis < 0 ? rank : 0;
  if (axis < 0 || axis >= rank)
    return e.fail("axis is outside of the operand's rank");
  bool exclusive = e.node->integer("exclusive", 0) != 0, reverse = e.node->integer("reverse", 0) != 0;
  int64_t size = shapeOf(x)[axis];
  auto shifted = [&](mlir::Value v, int64_t by) {
    SmallVector<int64_t> low(rank, 0), high(rank, 0);
    (reverse ? high : low)[axis] = by;
    (reverse ? low : high)[axis] = -by;
    return padWith(e.builder, e.loc, v, low, high, product ? 1 : 0);
  };
  if (exclusive && size)
    x = shifted(x, 1);
  for (int64_t distance = 1; distance < size; distance *= 2) {
    Expr here = e.expr(x), there = e.expr(shifted(x, distance));
    x = (product ? here * there : here + there).value();
  }
  e.define(0, x);
  return success();
}

/// Positions of an axis, or of all elements, that a known condition names.
LogicalResult compress(Emitter &e) {
  mlir::Value x = e.operand(0);
  TensorRef condition = x ? e.constant(1) : nullptr;
  if (!condition)
    return failure();
  int64_t axis = e.node->integer("axis", 0);
  if (!e.node->has("axis"))
    x = reshapeTo(e.builder, e.loc, x, {typeOf(x).getNumElements()});
  axis += axis < 0 ? typeOf(x).getRank() : 0;
  SmallVector<int64_t> positions;
  for (int64_t i = 0, n = std::min(condition->count(), shapeOf(x)[axis]); i < n; ++i)
    if (condition->integer(i))
      positions.push_back(i);
  e.define(0, takeAlong(e.builder, e.loc, x, axis, positions));
  return success();
}

/// The first lengths[b] positions of each row of the batch in reverse order.
LogicalResult reverseSequence(Emitter &e) {
  mlir::Value x = e.operand(0);
  TensorRef lengths = x ? e.constant(1) : nullptr;
  if (!lengths)
    return failure();
  int64_t batch = e.node->integer("batch_axis", 1), time = e.node->integer("time_axis", 0);
  SmallVector<mlir::Value> rows;
  for (int64_t b = 0; b < shapeOf(x)[batch]; ++b) {
    SmallVector<int64_t> offsets(shapeOf(x).size(), 0), sizes(shapeOf(x)), positions;
    offsets[batch] = b;
    sizes[batch] = 1;
    int64_t length = std::clamp<int64_t>(lengths->integer(b), 0, sizes[time]);
    for (int64_t t = 0; t < sizes[time]; ++t)
      positions.push_back(t < length ? length - 1 - t : t);
    rows.push_back(takeAlong(e.builder, e.loc, sliceOf(e.builder, e.loc, x, offsets, sizes), time, positions));
  }
  if (rows.empty())
    e.define(0, x);
  else
    e.define(0, concatOf(e.builder, e.loc, rows, batch));
  return success();
}

} // namespace

void addSelectionEmission(llvm::StringMap<EmitFunction> &t) {
  t["ArgMax"] = argument<true>;
  t["ArgMin"] = argument<false>;
  t["TopK"] = topK;
  t["Hardmax"] = hardmax;
  t["OneHot"] = oneHot;
  t["Trilu"] = triangle;
  t["CumSum"] = running<false>;
  t["CumProd"] = running<true>;
  t["Compress"] = compress;
  t["ReverseSequence"] = reverseSequence;
}

} // namespace ztc::importer
