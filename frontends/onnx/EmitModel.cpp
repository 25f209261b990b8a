// Emission of products, reductions, lookups, softmax and norms.
#include "frontends/onnx/Emitter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

/// A product with a matrix works on (T, K); other products have equal ranks and leading dimensions.
LogicalResult matmul(Emitter &e) {
  bool transposed = false;
  mlir::Value a = e.operand(0), b = a ? e.matrixOperand(1, transposed) : nullptr;
  if (!b)
    return failure();
  if (typeOf(a).getRank() < 2 || typeOf(b).getRank() < 2)
    return e.fail("multiplies a vector, which ztc does not emit");
  if (typeOf(b).getRank() == 2) {
    int64_t k = shapeOf(a).back();
    mlir::Value rows = reshapeTo(e.builder, e.loc, a, {typeOf(a).getNumElements() / k, k});
    mlir::Value product = graph::MatmulOp::create(e.builder, e.loc, rows, b, false, transposed);
    e.define(0, reshapeTo(e.builder, e.loc, product, e.outputShape()));
    return success();
  }
  auto withLeading = [&](mlir::Value x) {
    SmallVector<int64_t> shape(e.outputShape().drop_back(2));
    shape.append(shapeOf(x).end() - 2, shapeOf(x).end());
    return broadcastTo(e.builder, e.loc, x, shape);
  };
  e.define(0, graph::MatmulOp::create(e.builder, e.loc, withLeading(a), withLeading(b), false, false));
  return success();
}

LogicalResult gemm(Emitter &e) {
  bool transposed = false;
  mlir::Value a = e.operand(0), b = a ? e.matrixOperand(1, transposed) : nullptr;
  if (!b)
    return failure();
  bool transA = e.node->integer("transA", 0), transB = e.node->integer("transB", 0);
  mlir::Value y = graph::MatmulOp::create(e.builder, e.loc, a, b, transA, transB != transposed);
  if (double alpha = e.node->real("alpha", 1); alpha != 1)
    y = graph::MulOp::create(e.builder, e.loc, y, splatLike(e.builder, e.loc, y, alpha));
  if (e.node->hasInput(2)) {
    mlir::Value c = e.operand(2, e.outputShape());
    if (!c)
      return failure();
    if (double beta = e.node->real("beta", 1); beta != 1)
      c = graph::MulOp::create(e.builder, e.loc, c, splatLike(e.builder, e.loc, c, beta));
    y = graph::AddOp::create(e.builder, e.loc, y, c);
  }
  e.define(0, y);
  return success();
}

/// Rows of a matrix by token, or by constant indices: a slice where they are consecutive.
LogicalResult gather(Emitter &e) {
  mlir::Value table = e.operand(0);
  if (!table)
    return failure();
  int64_t axis = e.node->integer("axis", 0), rank = typeOf(table).getRank();
  axis += axis < 0 ? rank : 0;
  if (e.isLive(1) || (axis == 0 && rank == 2 && isa<BlockArgument>(table) && e.input(1).shape.size() > 1)) {
    if (axis != 0 || rank != 2)
      return e.fail("looks up data in a tensor that is no table of rows");
    if (!e.isLive(1)) { // learned positions: the indices are constant, and consecutive rows
      TensorRef indices = e.constant(1);
      if (!indices)
        return failure();
      int64_t width = e.input(1).shape.back();
      for (int64_t i = 0, n = indices->count(); i < n; ++i)
        if (indices->integer(i) != indices->integer(0) + i % width)
          return e.fail("looks up rows that are not consecutive");
      mlir::Value rows = sliceOf(e.builder, e.loc, table, {indices->integer(0), 0}, {width, shapeOf(table)[1]});
      e.define(0, broadcastTo(e.builder, e.loc, rows, e.outputShape()));
      return success();
    }
    mlir::Value indices = e.operand(1);
    if (!indices)
      return failure();
    auto type = RankedTensorType::get(e.outputShape(), typeOf(table).getElementType());
    e.define(0, graph::EmbeddingOp::create(e.builder, e.loc, type, table, indices));
    return success();
  }
  TensorRef indices = e.constant(1);
  if (!indices)
    return failure();
  int64_t size = shapeOf(table)[axis], n = indices->count();
  auto at = [&](int64_t i) { return indices->integer(i) < 0 ? indices->integer(i) + size : indices->integer(i); };
  for (int64_t i = 1; i < n; ++i)
    if (at(i) != at(0) + i)
      return e.fail("gathers positions that are not consecutive");
  SmallVector<int64_t> offsets(rank, 0), sizes(shapeOf(table));
  offsets[axis] = at(0);
  sizes[axis] = n;
  e.define(0, reshapeTo(e.builder, e.loc, sliceOf(e.builder, e.loc, table, offsets, sizes), e.outputShape()));
  return success();
}

enum class Reduction { Sum, Mean, Max };

template <Reduction kind> LogicalResult reduce(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t rank = typeOf(x).getRank();
  SmallVector<int64_t> axes = e.integers(1, "axes");
  if (axes.empty() && e.node->integer("noop_with_empty_axes", 0)) {
    e.define(0, x);
    return success();
  }
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  int64_t count = 1;
  for (int64_t &axis : axes) {
    axis += axis < 0 ? rank : 0;
    count *= shapeOf(x)[axis];
  }
  llvm::sort(axes);
  mlir::Value y = kind == Reduction::Max ? graph::ReduceMaxOp::create(e.builder, e.loc, x, axes).getResult()
                                         : graph::ReduceSumOp::create(e.builder, e.loc, x, axes).getResult();
  if (kind == Reduction::Mean)
    y = graph::DivOp::create(e.builder, e.loc, y, splatLike(e.builder, e.loc, y, double(count)));
  e.define(0, reshapeTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

LogicalResult softmax(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  int64_t axis = e.node->integer("axis", -1), rank = typeOf(x).getRank();
  if (axis != -1 && axis != rank - 1)
    return e.fail("softmax over another dimension than the last");
  e.define(0, graph::SoftmaxOp::create(e.builder, e.loc, x));
  return success();
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias over the last dimension, in primitive ops.
LogicalResult layerNorm(Emitter &e) {
  mlir::Value x = e.operand(0), scale = x ? e.operand(1, e.outputShape()) : nullptr;
  if (!scale)
    return failure();
  int64_t rank = typeOf(x).getRank(), axis = e.node->integer("axis", -1);
  if (axis != -1 && axis != rank - 1)
    return e.fail("normalises more than the last dimension");
  OpBuilder &b = e.builder;
  double width = double(shapeOf(x).back());
  auto mean = [&](mlir::Value v) {
    mlir::Value sum = graph::ReduceSumOp::create(b, e.loc, v, ArrayRef<int64_t>{rank - 1});
    return graph::DivOp::create(b, e.loc, sum, splatLike(b, e.loc, sum, width)).getResult();
  };
  mlir::Value centred = graph::SubOp::create(b, e.loc, x, broadcastTo(b, e.loc, mean(x), shapeOf(x)));
  mlir::Value variance = mean(graph::MulOp::create(b, e.loc, centred, centred));
  mlir::Value shifted =
      graph::AddOp::create(b, e.loc, variance, splatLike(b, e.loc, variance, e.node->real("epsilon", 1e-5)));
  mlir::Value inverse = graph::RsqrtOp::create(b, e.loc, shifted);
  mlir::Value y = graph::MulOp::create(b, e.loc, centred, broadcastTo(b, e.loc, inverse, shapeOf(x)));
  y = graph::MulOp::create(b, e.loc, y, scale);
  if (e.node->hasInput(2)) {
    mlir::Value bias = e.operand(2, e.outputShape());
    if (!bias)
      return failure();
    y = graph::AddOp::create(b, e.loc, y, bias);
  }
  e.define(0, y);
  return success();
}

LogicalResult rmsNorm(Emitter &e) {
  mlir::Value x = e.operand(0), weight = x ? e.operand(1) : nullptr;
  if (!weight)
    return failure();
  int64_t rank = typeOf(x).getRank(), axis = e.node->integer("axis", -1);
  if ((axis != -1 && axis != rank - 1) || typeOf(weight).getRank() != 1 || shapeOf(weight)[0] != shapeOf(x).back())
    return e.fail("normalises more than the last dimension");
  e.define(0, graph::RmsNormOp::create(e.builder, e.loc, x, weight, e.node->real("epsilon", 1e-5)));
  return success();
}

/// (B, Hkv, S, D) with each head repeated in place.
mlir::Value repeatHeads(Emitter &e, mlir::Value x, int64_t heads) {
  ArrayRef<int64_t> s = shapeOf(x);
  if (s[1] == heads)
    return x;
  mlir::Value split = reshapeTo(e.builder, e.loc, x, {s[0], s[1], 1, s[2], s[3]});
  mlir::Value wide = broadcastTo(e.builder, e.loc, split, {s[0], s[1], heads / s[1], s[2], s[3]});
  return graph::ReshapeOp::create(e.builder, e.loc,
                                  RankedTensorType::get({s[0], heads, s[2], s[3]}, typeOf(x).getElementType()), wide);
}

/// ONNX Attention without past and softcap, written out; the attention idiom finds it again.
LogicalResult attention(Emitter &e) {
  if (e.node->hasInput(4) || e.node->hasInput(5) || e.node->hasInput(6) || e.node->real("softcap", 0) != 0 ||
      e.node->outputs.size() > 1)
    return e.fail("a past, a padding count, a softcap or a second result, which ztc does not emit");
  mlir::Value q = e.operand(0), k = q ? e.operand(1) : nullptr, v = k ? e.operand(2) : nullptr;
  if (!v)
    return failure();
  bool hasHeads = typeOf(q).getRank() == 4;
  auto withHeads = [&](mlir::Value x, StringRef attribute) -> mlir::Value { // (B, S, H * D) to (B, H, S, D)
    int64_t heads = e.node->integer(attribute, 0);
    if (hasHeads || heads <= 0)
      return x;
    ArrayRef<int64_t> s = shapeOf(x);
    return transposeTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, x, {s[0], s[1], heads, s[2] / heads}),
                       {0, 2, 1, 3});
  };
  q = withHeads(q, "q_num_heads");
  int64_t heads = shapeOf(q)[1];
  k = withHeads(k, "kv_num_heads");
  v = withHeads(v, "kv_num_heads");
  if (heads % shapeOf(k)[1] != 0)
    return e.fail("its query heads are no multiple of its key heads");
  k = repeatHeads(e, k, heads);
  v = repeatHeads(e, v, heads);
  double scale = e.node->real("scale", 1 / std::sqrt(double(shapeOf(q)[3])));
  mlir::Value scores = graph::MatmulOp::create(e.builder, e.loc, q, k, false, true);
  scores = graph::MulOp::create(e.builder, e.loc, scores, splatLike(e.builder, e.loc, scores, scale));
  auto hide = [&](mlir::Value visible) {
    mlir::Value hidden = splatLike(e.builder, e.loc, scores, -std::numeric_limits<double>::infinity());
    scores = graph::SelectOp::create(e.builder, e.loc, scores.getType(), visible, scores, hidden);
  };
  if (e.node->integer("is_causal", 0))
    hide(e.maskValue(Mask{true, 0, 1, 0}, ElementType::Bool, shapeOf(scores)));
  if (e.node->hasInput(3)) {
    mlir::Value mask = e.operand(3, shapeOf(scores));
    if (!mask)
      return failure();
    if (typeOf(mask).getElementType().isInteger(1))
      hide(mask);
    else
      scores = graph::AddOp::create(e.builder, e.loc, scores, mask);
  }
  mlir::Value probabilities = graph::SoftmaxOp::create(e.builder, e.loc, scores);
  mlir::Value y = graph::MatmulOp::create(e.builder, e.loc, probabilities, v, false, false);
  e.define(0,
           hasHeads ? y : reshapeTo(e.builder, e.loc, transposeTo(e.builder, e.loc, y, {0, 2, 1, 3}), e.outputShape()));
  return success();
}

/// The (S, D/2) table of an operand (B or 1, S, D/2) whose batches are equal.
mlir::Value rotaryTable(Emitter &e, unsigned input) {
  TensorRef tensor = e.constant(input);
  if (!tensor)
    return nullptr;
  Shape shape = tensor->shape;
  if (shape.size() == 2)
    shape.insert(shape.begin(), 1);
  int64_t slab = shape.size() == 3 ? shape[1] * shape[2] : 0;
  std::vector<float> table;
  for (int64_t i = 0, n = tensor->count(); i < n && slab; ++i) {
    if (i < slab)
      table.push_back(float(tensor->reals[i]));
    else if (table[i % slab] != float(tensor->reals[i]))
      slab = 0;
  }
  if (!slab) {
    (void)e.fail("rotary tables that differ between rows of the batch");
    return nullptr;
  }
  return e.table(table, {shape[1], shape[2]});
}

LogicalResult rotary(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  if (e.node->integer("interleaved", 0) || e.node->integer("rotary_embedding_dim", 0) || e.node->hasInput(3))
    return e.fail("an interleaved or partial rotation, or one by positions, which ztc does not emit");
  mlir::Value cos = rotaryTable(e, 1), sin = cos ? rotaryTable(e, 2) : nullptr;
  if (!sin)
    return failure();
  bool hasHeads = typeOf(x).getRank() == 4;
  int64_t heads = e.node->integer("num_heads", 0);
  if (!hasHeads && heads <= 0)
    return e.fail("three-dimensional operands need num_heads");
  ArrayRef<int64_t> s = shapeOf(x);
  mlir::Value rows = hasHeads ? transposeTo(e.builder, e.loc, x, {0, 2, 1, 3})
                              : reshapeTo(e.builder, e.loc, x, {s[0], s[1], heads, s[2] / heads});
  if (shapeOf(cos)[0] != shapeOf(rows)[1] || shapeOf(cos)[1] * 2 != shapeOf(rows)[3])
    return e.fail("rotary tables of another size than the operand");
  mlir::Value turned = graph::RopeOp::create(e.builder, e.loc, rows, cos, sin, false);
  e.define(0, hasHeads ? transposeTo(e.builder, e.loc, turned, {0, 2, 1, 3})
                       : reshapeTo(e.builder, e.loc, turned, e.outputShape()));
  return success();
}

} // namespace

void addModelEmission(llvm::StringMap<EmitFunction> &t) {
  t["MatMul"] = matmul;
  t["Gemm"] = gemm;
  t["Gather"] = gather;
  t["ReduceSum"] = reduce<Reduction::Sum>;
  t["ReduceMean"] = reduce<Reduction::Mean>;
  t["ReduceMax"] = reduce<Reduction::Max>;
  t["Softmax"] = softmax;
  t["LayerNormalization"] = layerNorm;
  t["RMSNormalization"] = rmsNorm;
  t["SimplifiedLayerNormalization"] = rmsNorm;
  t["Attention"] = attention;
  t["RotaryEmbedding"] = rotary;
}

} // namespace ztc::importer
