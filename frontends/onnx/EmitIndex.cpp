// Emission of lookups: by tokens, by constant positions, by computed indices.
#include "compiler/Dialect/Graph/Roles.h"
#include "frontends/onnx/EmitPlaces.h"

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// Indices counted from the end, where they are negative; token numbers are not.
mlir::Value fromFront(Emitter &e, mlir::Value indices, int64_t size) {
  auto argument = dyn_cast<BlockArgument>(indices);
  if (argument && e.roleOf(argument.getArgNumber()) == graph::Role::Tokens)
    return indices;
  Expr i = castTo(e.expr(indices), e.builder.getI32Type());
  return select(i < zeroLike(i), i + double(size), i).value();
}

/// Learned positions: constant indices of consecutive rows, the same in each row of the batch, are a slice.
mlir::Value consecutiveRows(Emitter &e, mlir::Value table, const HostTensor &indices) {
  if (indices.shape.size() < 2 || !isa<BlockArgument>(table) || typeOf(table).getRank() != 2 || !indices.count())
    return nullptr;
  int64_t width = indices.shape.back(), first = indices.integer(0);
  for (int64_t i = 0, n = indices.count(); i < n; ++i)
    if (indices.integer(i) != first + i % width)
      return nullptr;
  if (first < 0 || first + width > shapeOf(table)[0])
    return nullptr;
  mlir::Value rows = sliceOf(e.builder, e.loc, table, {first, 0}, {width, shapeOf(table)[1]});
  return broadcastTo(e.builder, e.loc, rows, e.outputShape());
}

LogicalResult gather(Emitter &e) {
  mlir::Value table = e.operand(0);
  if (!table)
    return failure();
  int64_t axis = e.node->integer("axis", 0), rank = typeOf(table).getRank();
  axis += axis < 0 ? rank : 0;
  int64_t size = shapeOf(table)[axis];
  if (!e.isLive(1)) {
    TensorRef indices = e.constant(1);
    if (!indices)
      return failure();
    mlir::Value y = axis == 0 ? consecutiveRows(e, table, *indices) : nullptr;
    if (!y) {
      SmallVector<int64_t> positions;
      for (int64_t i = 0, n = indices->count(); i < n; ++i) {
        int64_t at = indices->integer(i) + (indices->integer(i) < 0 ? size : 0);
        if (at < 0 || at >= size)
          return e.fail("index " + llvm::Twine(indices->integer(i)) + " is outside of a dimension of size " +
                        llvm::Twine(size));
        positions.push_back(at);
      }
      y = reshapeTo(e.builder, e.loc, takeAlong(e.builder, e.loc, table, axis, positions), e.outputShape());
    }
    e.define(0, y);
    return success();
  }
  mlir::Value indices = e.operand(1);
  if (!indices)
    return failure();
  indices = fromFront(e, indices, size);
  if (axis == 0 && rank == 2) {
    e.define(0, lookUpRows(e.builder, e.loc, table, indices));
    return success();
  }
  SmallVector<int64_t> ignored;
  mlir::Value front = axisToFront(e.builder, e.loc, table, axis, ignored);
  int64_t width = size ? typeOf(table).getNumElements() / size : 0;
  mlir::Value found = lookUpRows(e.builder, e.loc, reshapeTo(e.builder, e.loc, front, {size, width}), indices);
  // (indices..., before, after) to (before, indices..., after).
  SmallVector<int64_t> shape(shapeOf(indices)), permutation;
  int64_t indexRank = int64_t(shape.size());
  shape.append(shapeOf(front).begin() + 1, shapeOf(front).end());
  for (int64_t d = 0; d < axis; ++d)
    permutation.push_back(indexRank + d);
  for (int64_t d = 0; d < indexRank; ++d)
    permutation.push_back(d);
  for (int64_t d = axis; d < rank - 1; ++d)
    permutation.push_back(indexRank + d);
  e.define(0, transposeTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, found, shape), permutation));
  return success();
}

LogicalResult gatherPlaces(Emitter &e, const Places &places) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  mlir::Value table = reshapeTo(e.builder, e.loc, x, {places.rows, places.width});
  mlir::Value y = places.known ? takeAlong(e.builder, e.loc, table, 0, *places.known)
                               : lookUpRows(e.builder, e.loc, table, places.value);
  e.define(0, reshapeTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

LogicalResult gatherElements(Emitter &e) {
  std::optional<Places> places = elementPlaces(e, e.node->integer("axis", 0));
  return places ? gatherPlaces(e, *places) : failure();
}

LogicalResult gatherND(Emitter &e) {
  std::optional<Places> places = tuplePlaces(e, e.node->integer("batch_dims", 0));
  return places ? gatherPlaces(e, *places) : failure();
}

/// The place of each index tuple in row-major order, from its coordinates: `coordinate(d)` is a constant of the index'
/// shape, or data.
class PlaceBuilder {
public:
  PlaceBuilder(Emitter &e, ArrayRef<int64_t> shape) : e(e), shape(shape) {}

  void add(const Expr &coordinate, int64_t stride) {
    Expr term = coordinate * double(stride);
    sum = sum ? *sum + term : term;
  }
  /// A coordinate that is the position itself.
  void addPosition(int64_t dimension, int64_t stride) {
    add(e.expr(iotaOf(e.builder, e.loc, shape, dimension)), stride);
  }
  /// One that is data, counted from the end where it is negative.
  void addIndex(mlir::Value index, int64_t size, int64_t stride) { add(e.expr(fromFront(e, index, size)), stride); }
  mlir::Value value() {
    int64_t count = countOf(shape);
    mlir::Value all =
        sum ? sum->value() : splat(e.builder, e.loc, RankedTensorType::get(shape, e.builder.getI32Type()), 0);
    return reshapeTo(e.builder, e.loc, all, {count});
  }

private:
  Emitter &e;
  ArrayRef<int64_t> shape;
  std::optional<Expr> sum;
};

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// An index within [-size, size), from the front; -1 after a diagnostic.
int64_t checked(Emitter &e, int64_t index, int64_t size) {
  int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && at < size)
    return at;
  (void)e.fail("index " + llvm::Twine(index) + " is outside of a dimension of size " + llvm::Twine(size));
  return -1;
}

} // namespace

std::optional<Places> elementPlaces(Emitter &e, int64_t axis) {
  const Shape data = e.input(0).shape, shape = e.input(1).shape; // copies: evaluation writes them anew
  axis += axis < 0 ? int64_t(data.size()) : 0;
  if (data.size() != shape.size() || axis < 0 || axis >= int64_t(data.size())) {
    (void)e.fail("indices do not fit the operand");
    return std::nullopt;
  }
  Places places;
  places.rows = countOf(data);
  places.count = countOf(shape);
  SmallVector<int64_t> strides = rowMajorStrides(data);
  if (e.isLive(1)) {
    mlir::Value indices = e.operand(1);
    if (!indices)
      return std::nullopt;
    PlaceBuilder builder(e, shape);
    for (int64_t d = 0; d < int64_t(data.size()); ++d)
      d == axis ? builder.addIndex(indices, data[d], strides[d]) : builder.addPosition(d, strides[d]);
    places.value = builder.value();
    return places;
  }
  TensorRef indices = e.constant(1);
  if (!indices)
    return std::nullopt;
  places.known.emplace();
  Odometer odometer(shape, {});
  for (int64_t i = 0; i < places.count; ++i, odometer.advance()) {
    int64_t at = checked(e, indices->integer(i), data[axis]), place = at * strides[axis];
    if (at < 0)
      return std::nullopt;
    for (int64_t d = 0; d < int64_t(data.size()); ++d)
      place += d == axis ? 0 : odometer.position()[d] * strides[d];
    places.known->push_back(place);
  }
  return places;
}

std::optional<Places> tuplePlaces(Emitter &e, int64_t batchRank) {
  const Shape dataShape = e.input(0).shape, tupleShape = e.input(1).shape; // copies: evaluation writes them anew
  ArrayRef<int64_t> data = dataShape, indexShape = tupleShape;
  int64_t width = indexShape.empty() ? -1 : indexShape.back();
  if (width < 0 || batchRank < 0 || batchRank + width > int64_t(data.size()) ||
      batchRank >= int64_t(indexShape.size())) {
    (void)e.fail("indices do not fit the operand");
    return std::nullopt;
  }
  ArrayRef<int64_t> table = data.take_front(batchRank + width), tuples = indexShape.drop_back();
  Places places;
  places.rows = countOf(table);
  places.width = countOf(data.drop_front(batchRank + width));
  places.count = countOf(tuples);
  SmallVector<int64_t> strides = rowMajorStrides(table);
  if (e.isLive(1)) {
    mlir::Value indices = e.operand(1);
    if (!indices)
      return std::nullopt;
    PlaceBuilder builder(e, tuples);
    for (int64_t d = 0; d < batchRank; ++d)
      builder.addPosition(d, strides[d]);
    for (int64_t k = 0; k < width; ++k) {
      SmallVector<int64_t> offsets(indexShape.size(), 0), sizes(indexShape);
      offsets.back() = k;
      sizes.back() = 1;
      mlir::Value one = sliceOf(e.builder, e.loc, indices, offsets, sizes);
      builder.addIndex(reshapeTo(e.builder, e.loc, one, tuples), table[batchRank + k], strides[batchRank + k]);
    }
    places.value = builder.value();
    return places;
  }
  TensorRef indices = e.constant(1);
  if (!indices)
    return std::nullopt;
  places.known.emplace();
  Odometer odometer(tuples, {});
  for (int64_t i = 0; i < places.count; ++i, odometer.advance()) {
    int64_t place = 0;
    for (int64_t d = 0; d < batchRank; ++d)
      place += odometer.position()[d] * strides[d];
    for (int64_t k = 0; k < width; ++k) {
      int64_t at = checked(e, indices->integer(i * width + k), table[batchRank + k]);
      if (at < 0)
        return std::nullopt;
      place += at * strides[batchRank + k];
    }
    places.known->push_back(place);
  }
  return places;
}

void addIndexEmission(llvm::StringMap<EmitFunction> &t) {
  t["Gather"] = gather;
  t["GatherElements"] = gatherElements;
  t["GatherND"] = gatherND;
}

} // namespace ztc::importer
