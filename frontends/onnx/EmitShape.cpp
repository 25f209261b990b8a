// Emission of ops that move data.
#include "frontends/onnx/Emitter.h"

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

LogicalResult slice(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  SmallVector<int64_t> starts = e.integers(1, "starts"), axes = e.integers(3, "axes"), steps = e.integers(4, ""),
                       offsets(typeOf(x).getRank(), 0);
  for (auto [i, start] : llvm::enumerate(starts)) {
    int64_t axis = axes.empty() ? int64_t(i) : axes[i];
    axis += axis < 0 ? typeOf(x).getRank() : 0;
    int64_t size = shapeOf(x)[axis];
    if (!steps.empty() && steps[i] != 1 && e.outputShape()[axis] != size)
      return e.fail("slices with a step, which ztc does not emit");
    offsets[axis] = std::clamp<int64_t>(start < 0 ? std::max(start, -size) + size : start, 0, size);
  }
  if (llvm::is_contained(e.outputShape(), 0))
    return e.fail("gives an empty tensor");
  e.define(0, sliceOf(e.builder, e.loc, x, offsets, e.outputShape()));
  return success();
}

/// Empty operands (a past of length 0) fall away.
LogicalResult concat(Emitter &e) {
  SmallVector<mlir::Value> inputs;
  for (unsigned i = 0; i < e.node->inputs.size(); ++i) {
    if (llvm::is_contained(e.input(i).shape, 0))
      continue;
    inputs.push_back(e.operand(i));
    if (!inputs.back())
      return failure();
  }
  if (inputs.size() == 1) {
    e.define(0, inputs[0]);
    return success();
  }
  auto type = RankedTensorType::get(e.outputShape(), typeOf(inputs[0]).getElementType());
  int64_t axis = e.node->integer("axis", 0);
  e.define(0, graph::ConcatOp::create(e.builder, e.loc, type, inputs, axis < 0 ? axis + type.getRank() : axis));
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
  t["Dropout"] = identity;
}

} // namespace ztc::importer
