// Positions: slices with steps, lookups, padding.
#include "frontends/onnx/Build.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace ztc::importer {

namespace {
/// Of slices that together make up a lookup, more than this are one.
constexpr size_t kMostSlices = 16;

RankedTensorType shaped(Value like, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, typeOf(like).getElementType());
}

/// Every `step`-th position from `start`, `count` of them: a dimension of rows of `step`, whose first is kept.
Value everyStep(OpBuilder &builder, Location loc, Value x, int64_t axis, int64_t start, int64_t step, int64_t count) {
  SmallVector<int64_t> offsets(shapeOf(x).size(), 0), sizes(shapeOf(x)), zeros(sizes.size(), 0), high(sizes.size(), 0);
  offsets[axis] = start;
  sizes[axis] = std::min(count * step, shapeOf(x)[axis] - start);
  Value rows = sliceOf(builder, loc, x, offsets, sizes);
  if (step == 1)
    return rows;
  high[axis] = count * step - sizes[axis];
  rows = padWith(builder, loc, rows, zeros, high, 0);
  SmallVector<int64_t> split(shapeOf(rows)), first;
  split[axis] = count;
  split.insert(split.begin() + axis + 1, step);
  first = split;
  first[axis + 1] = 1;
  rows = graph::ReshapeOp::create(builder, loc, shaped(rows, split), rows);
  rows = sliceOf(builder, loc, rows, SmallVector<int64_t>(split.size(), 0), first);
  first.erase(first.begin() + axis + 1);
  return graph::ReshapeOp::create(builder, loc, shaped(rows, first), rows);
}
} // namespace

Value iotaOf(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape, int64_t dimension) {
  return graph::IotaOp::create(builder, loc, RankedTensorType::get(shape, builder.getI32Type()), dimension);
}

Value castElements(OpBuilder &builder, Location loc, Value x, Type element) {
  if (typeOf(x).getElementType() == element)
    return x;
  return graph::CastOp::create(builder, loc, RankedTensorType::get(shapeOf(x), element), x);
}

Value concatOf(OpBuilder &builder, Location loc, ArrayRef<Value> parts, int64_t axis) {
  if (parts.size() == 1)
    return parts[0];
  SmallVector<int64_t> shape(shapeOf(parts[0]));
  for (Value part : parts.drop_front())
    shape[axis] += shapeOf(part)[axis];
  return graph::ConcatOp::create(builder, loc, shaped(parts[0], shape), parts, axis);
}

Value padWith(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, double value) {
  SmallVector<int64_t> offsets, sizes, before, after, padded;
  for (auto [d, size] : llvm::enumerate(shapeOf(x))) {
    offsets.push_back(std::max<int64_t>(-low[d], 0));
    sizes.push_back(size - offsets[d] - std::max<int64_t>(-high[d], 0));
    before.push_back(std::max<int64_t>(low[d], 0));
    after.push_back(std::max<int64_t>(high[d], 0));
    padded.push_back(before[d] + sizes[d] + after[d]);
  }
  x = sliceOf(builder, loc, x, offsets, sizes);
  if (padded == sizes)
    return x;
  if (value == 0 && typeOf(x).getElementType().isIntOrFloat())
    return graph::PadOp::create(builder, loc, shaped(x, padded), x, before);
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto edge = [&](int64_t width) {
      SmallVector<int64_t> shape(shapeOf(x));
      shape[d] = width;
      return splat(builder, loc, shaped(x, shape), value);
    };
    SmallVector<Value> parts;
    if (before[d])
      parts.push_back(edge(before[d]));
    parts.push_back(x);
    if (after[d])
      parts.push_back(edge(after[d]));
    x = concatOf(builder, loc, parts, int64_t(d));
  }
  return x;
}

Value takeAlong(OpBuilder &builder, Location loc, Value x, int64_t axis, ArrayRef<int64_t> indices) {
  // Runs of equal steps; a run of equal positions is one that is repeated.
  struct Run {
    int64_t start, step, count;
  };
  SmallVector<Run> runs;
  for (int64_t index : indices) {
    if (!runs.empty()) {
      Run &run = runs.back();
      int64_t step = index - (run.start + (run.count - 1) * run.step);
      if (step >= 0 && (run.count == 1 || step == run.step)) {
        run.step = step;
        ++run.count;
        continue;
      }
    }
    runs.push_back({index, 1, 1});
  }
  if (runs.empty()) {
    SmallVector<int64_t> sizes(shapeOf(x)), offsets(sizes.size(), 0);
    sizes[axis] = 0;
    return sliceOf(builder, loc, x, offsets, sizes);
  }
  if (runs.size() > kMostSlices) {
    SmallVector<int64_t> inverse, rest;
    Value front = axisToFront(builder, loc, x, axis, inverse);
    rest.assign(shapeOf(front).begin() + 1, shapeOf(front).end());
    int64_t rows = shapeOf(front)[0], width = typeOf(front).getNumElements() / std::max<int64_t>(rows, 1);
    Value table = reshapeTo(builder, loc, front, {rows, width});
    Value found = lookUpRows(builder, loc, table, indexConstant(builder, loc, indices, {int64_t(indices.size())}));
    rest.insert(rest.begin(), int64_t(indices.size()));
    return transposeTo(builder, loc, reshapeTo(builder, loc, found, rest), inverse);
  }
  SmallVector<Value> parts;
  for (const Run &run : runs) {
    if (run.step > 0) {
      parts.push_back(everyStep(builder, loc, x, axis, run.start, run.step, run.count));
      continue;
    }
    Value one = everyStep(builder, loc, x, axis, run.start, 1, 1);
    SmallVector<int64_t> shape(shapeOf(one));
    shape[axis] = run.count;
    parts.push_back(broadcastTo(builder, loc, one, shape));
  }
  return concatOf(builder, loc, parts, axis);
}

Value lookUpRows(OpBuilder &builder, Location loc, Value table, Value indices) {
  SmallVector<int64_t> shape(shapeOf(indices));
  shape.push_back(shapeOf(table)[1]);
  return graph::EmbeddingOp::create(builder, loc, shaped(table, shape), table, indices);
}

Value axisToFront(OpBuilder &builder, Location loc, Value x, int64_t axis, SmallVectorImpl<int64_t> &inverse) {
  SmallVector<int64_t> permutation{axis};
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d)
    if (d != axis)
      permutation.push_back(d);
  inverse = invertPermutationVector(permutation);
  return transposeTo(builder, loc, x, permutation);
}

Value axisToBack(OpBuilder &builder, Location loc, Value x, int64_t axis, SmallVectorImpl<int64_t> &inverse) {
  SmallVector<int64_t> permutation;
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d)
    if (d != axis)
      permutation.push_back(d);
  permutation.push_back(axis);
  inverse = invertPermutationVector(permutation);
  return transposeTo(builder, loc, x, permutation);
}

Value indexConstant(OpBuilder &builder, Location loc, ArrayRef<int64_t> elements, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, builder.getI32Type());
  SmallVector<int32_t> narrow(elements.begin(), elements.end());
  return graph::ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, ArrayRef<int32_t>(narrow)));
}

} // namespace ztc::importer
