// Emission of ops that move data by fixed rules.
#include "frontends/onnx/Emitter.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ztc::importer {
namespace {

LogicalResult reshape(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  // Not through reshapeTo: a reshape of a reshape is what the attention idiom looks at.
  auto type = RankedTensorType::get(e.outputShape(), typeOf(x).getElementType());
  e.define(0, type == x.getType() ? x : graph::ReshapeOp::create(e.builder, e.loc, type, x).getResult());
  return success();
}

LogicalResult transpose(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> permutation(e.node->integers("perm"));
  if (permutation.empty())
    for (int64_t i = typeOf(x).getRank(); i > 0; --i)
      permutation.push_back(i - 1);
  for (int64_t &p : permutation)
    p += p < 0 ? typeOf(x).getRank() : 0;
  e.define(0, transposeTo(e.builder, e.loc, x, permutation));
  return success();
}

LogicalResult expand(Emitter &e) {
  mlir::Value x = e.operand(0, e.outputShape());
  if (!x)
    return failure();
  e.define(0, x);
  return success();
}

/// Steps other than 1 are lookups of constant positions.
LogicalResult slice(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> starts = e.integers(1, "starts"), axes = e.integers(3, "axes"), steps = e.integers(4, "");
  for (auto [i, start] : llvm::enumerate(starts)) {
    int64_t axis = axes.empty() ? int64_t(i) : axes[i], step = steps.empty() ? 1 : steps[i];
    axis += axis < 0 ? typeOf(x).getRank() : 0;
    int64_t size = shapeOf(x)[axis], count = e.outputShape()[axis];
    int64_t first = start < 0 ? std::max(start, -size) + size : start;
    first = std::clamp<int64_t>(first, 0, step < 0 ? std::max<int64_t>(size - 1, 0) : size);
    SmallVector<int64_t> offsets(typeOf(x).getRank(), 0), sizes(shapeOf(x)), positions;
    if (step == 1 || count <= 1) {
      offsets[axis] = std::min(first, size - count);
      sizes[axis] = count;
      x = sliceOf(e.builder, e.loc, x, offsets, sizes);
      continue;
    }
    for (int64_t k = 0; k < count; ++k)
      positions.push_back(first + k * step);
    x = takeAlong(e.builder, e.loc, x, axis, positions);
  }
  e.define(0, x);
  return success();
}

/// Empty operands (a past of length 0) fall away.
LogicalResult concat(Emitter &e) {
  SmallVector<mlir::Value> inputs;
  for (unsigned i = 0; i < e.node->inputs.size(); ++i) {
    if (llvm::is_contained(e.input(i).shape, 0) && !llvm::is_contained(e.outputShape(), 0))
      continue;
    inputs.push_back(e.operand(i));
    if (!inputs.back())
      return failure();
  }
  int64_t axis = e.node->integer("axis", 0);
  e.define(0, concatOf(e.builder, e.loc, inputs, axis < 0 ? axis + int64_t(e.outputShape().size()) : axis));
  return success();
}

LogicalResult split(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", 0);
  axis += axis < 0 ? typeOf(x).getRank() : 0;
  SmallVector<int64_t> offsets(typeOf(x).getRank(), 0);
  for (unsigned i = 0; i < e.node->outputs.size(); ++i) {
    e.define(i, sliceOf(e.builder, e.loc, x, offsets, e.outputShape(i)));
    offsets[axis] += e.outputShape(i)[axis];
  }
  return success();
}

LogicalResult identity(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, x);
  return success();
}

/// Inference: the identity. A node in training mode that drops anything is refused, since what PyTorch drops is chance.
LogicalResult dropout(Emitter &e) {
  bool isTraining = false;
  if (e.node->hasInput(2)) {
    TensorRef mode = e.constant(2);
    if (!mode)
      return failure();
    isTraining = mode->count() && mode->integer(0) != 0;
  }
  double ratio = e.node->real("ratio", 0.5);
  if (isTraining && e.node->hasInput(1)) {
    TensorRef given = e.constant(1);
    if (!given)
      return failure();
    ratio = given->count() ? given->real(0) : ratio;
  }
  if (isTraining && ratio != 0)
    return e.fail("drops elements by chance (training_mode, ratio " + llvm::formatv("{0}", ratio).str() +
                  "): export the model in evaluation mode, model.eval()");
  if (failed(identity(e)))
    return failure();
  if (e.node->outputs.size() > 1 && !e.node->outputs[1].empty())
    e.define(1, splat(e.builder, e.loc, RankedTensorType::get(e.outputShape(1), e.elementType(e.output(1).type)), 1));
  return success();
}

LogicalResult tile(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  // (a, b) to (1, a, 1, b), repeated along the new dimensions.
  SmallVector<int64_t> split, wide;
  for (auto [from, to] : llvm::zip(shapeOf(x), e.outputShape())) {
    split.append({1, from});
    wide.append({from ? to / from : 0, from});
  }
  auto shaped = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, typeOf(x).getElementType()); };
  mlir::Value rows = graph::ReshapeOp::create(e.builder, e.loc, shaped(split), x);
  rows = broadcastTo(e.builder, e.loc, rows, wide);
  e.define(0, graph::ReshapeOp::create(e.builder, e.loc, shaped(e.outputShape()), rows));
  return success();
}

/// Positions of a padded axis that repeat those of the operand.
SmallVector<int64_t> paddedPositions(StringRef mode, int64_t size, int64_t low, int64_t high) {
  SmallVector<int64_t> positions;
  for (int64_t i = -low; i < size + high; ++i) {
    int64_t at = i;
    if (mode == "edge")
      at = std::clamp<int64_t>(i, 0, size - 1);
    else if (mode == "wrap")
      at = ((i % size) + size) % size;
    else if (size == 1)
      at = 0;
    else if (int64_t period = 2 * (size - 1)) { // reflect
      at = ((i % period) + period) % period;
      at = at < size ? at : period - at;
    }
    positions.push_back(at);
  }
  return positions;
}

LogicalResult pad(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  std::string mode = e.node->text("mode", "constant");
  int64_t rank = typeOf(x).getRank();
  SmallVector<int64_t> pads = e.integers(1, "pads"), axes = e.integers(3, ""), low(rank, 0), high(rank, 0);
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (pads.size() != 2 * axes.size())
    return e.fail("has pads of another number than its axes");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    axis += axis < 0 ? rank : 0;
    low[axis] = pads[i];
    high[axis] = pads[i + axes.size()];
  }
  if (mode != "constant") {
    for (int64_t d = 0; d < rank; ++d)
      if (low[d] || high[d])
        x = takeAlong(e.builder, e.loc, x, d, paddedPositions(mode, shapeOf(x)[d], low[d], high[d]));
    e.define(0, x);
    return success();
  }
  if (!e.node->hasInput(2) || !e.isLive(2)) {
    double value = e.node->real("value", 0);
    if (e.node->hasInput(2)) {
      TensorRef constant = e.constant(2);
      if (!constant)
        return failure();
      value = constant->count() ? constant->real(0) : 0;
    }
    e.define(0, padWith(e.builder, e.loc, x, low, high, value));
    return success();
  }
  // A value that is data: what is not of x.
  mlir::Value value = e.operand(2, e.outputShape());
  if (!value)
    return failure();
  mlir::Value inside =
      padWith(e.builder, e.loc, splat(e.builder, e.loc, RankedTensorType::get(shapeOf(x), e.builder.getI1Type()), 1),
              low, high, 0);
  mlir::Value zeros = padWith(e.builder, e.loc, x, low, high, 0);
  e.define(0, graph::SelectOp::create(e.builder, e.loc, zeros.getType(), inside, zeros, value));
  return success();
}

/// Blocks of the depth become squares, or the other way round; (B, C, H, W).
LogicalResult depthToSpace(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t b = e.node->integer("blocksize", 1);
  ArrayRef<int64_t> s = shapeOf(x);
  bool columnsFirst = e.node->text("mode", "DCR") == "CRD";
  mlir::Value parts = columnsFirst ? reshapeTo(e.builder, e.loc, x, {s[0], s[1] / (b * b), b, b, s[2], s[3]})
                                   : reshapeTo(e.builder, e.loc, x, {s[0], b, b, s[1] / (b * b), s[2], s[3]});
  parts = columnsFirst ? transposeTo(e.builder, e.loc, parts, {0, 1, 4, 2, 5, 3})
                       : transposeTo(e.builder, e.loc, parts, {0, 3, 4, 1, 5, 2});
  e.define(0, reshapeTo(e.builder, e.loc, parts, e.outputShape()));
  return success();
}

LogicalResult spaceToDepth(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t b = e.node->integer("blocksize", 1);
  ArrayRef<int64_t> s = shapeOf(x);
  mlir::Value parts = reshapeTo(e.builder, e.loc, x, {s[0], s[1], s[2] / b, b, s[3] / b, b});
  parts = transposeTo(e.builder, e.loc, parts, {0, 3, 5, 1, 2, 4});
  e.define(0, reshapeTo(e.builder, e.loc, parts, e.outputShape()));
  return success();
}

/// Cuts or pads around the centre.
LogicalResult centerCropPad(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> low, high;
  for (auto [from, to] : llvm::zip(shapeOf(x), e.outputShape())) {
    int64_t difference = to - from, before = difference >= 0 ? difference / 2 : -(-difference / 2);
    low.push_back(before);
    high.push_back(difference - before);
  }
  e.define(0, padWith(e.builder, e.loc, x, low, high, 0));
  return success();
}

} // namespace

void addShapeEmission(llvm::StringMap<EmitFunction> &t) {
  for (const char *op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
    t[op] = reshape;
  t["Transpose"] = transpose;
  t["Expand"] = expand;
  t["Slice"] = slice;
  t["Concat"] = concat;
  t["Split"] = split;
  t["Identity"] = identity;
  t["Dropout"] = dropout;
  t["Tile"] = tile;
  t["Pad"] = pad;
  t["DepthToSpace"] = depthToSpace;
  t["SpaceToDepth"] = spaceToDepth;
  t["CenterCropPad"] = centerCropPad;
}

} // namespace ztc::importer
