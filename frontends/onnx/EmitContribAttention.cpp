// Emission of onnxruntime's own attention operators (domain com.microsoft) without a past, in plain graph ops; the
// attention idiom finds them again.
#include "frontends/onnx/Emitter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

/// (B, S, H * D) to (B, S, H, D).
mlir::Value splitHeads(Emitter &e, mlir::Value x, int64_t heads) {
  ArrayRef<int64_t> s = shapeOf(x);
  return reshapeTo(e.builder, e.loc, x, {s[0], s[1], heads, s[2] / heads});
}

/// (B, S, H, D) with `heads` heads, each of x's repeated in place, as (B, H, S, D).
mlir::Value turnedHeads(Emitter &e, mlir::Value x, int64_t heads) {
  mlir::Value turned = transposeTo(e.builder, e.loc, x, {0, 2, 1, 3});
  SmallVector<int64_t> s(shapeOf(turned));
  if (s[1] == heads)
    return turned;
  mlir::Value split = reshapeTo(e.builder, e.loc, turned, {s[0], s[1], 1, s[2], s[3]});
  mlir::Value wide = broadcastTo(e.builder, e.loc, split, {s[0], s[1], heads / s[1], s[2], s[3]});
  auto type = RankedTensorType::get({s[0], heads, s[2], s[3]}, typeOf(x).getElementType());
  return graph::ReshapeOp::create(e.builder, e.loc, type, wide);
}

/// What the operators of this file differ in.
struct Scores {
  double scale = 0; ///< 0: 1 / sqrt(D)
  bool causal = false;
  int64_t window = 0; ///< position i sees j > i - window
  double softcap = 0;
  mlir::Value bias; ///< added to the scores, broadcast to them; may be null
  mlir::Value sink; ///< (H): a further logit of each row that has no value; may be null
};

/// softmax(scale q k^T + mask) v of q (B, S, H, D), k and v (B, S, Hkv, D), as (B, S, H * Dv).
mlir::Value attend(Emitter &e, mlir::Value q, mlir::Value k, mlir::Value v, const Scores &s) {
  OpBuilder &b = e.builder;
  int64_t heads = shapeOf(q)[2];
  double scale = s.scale != 0 ? s.scale : 1 / std::sqrt(double(shapeOf(q)[3]));
  q = turnedHeads(e, q, heads);
  k = turnedHeads(e, k, heads);
  v = turnedHeads(e, v, heads);
  mlir::Value scores = graph::MatmulOp::create(b, e.loc, q, k, false, true);
  scores = graph::MulOp::create(b, e.loc, scores, splatLike(b, e.loc, scores, scale));
  if (s.softcap > 0) {
    mlir::Value inner = graph::MulOp::create(b, e.loc, scores, splatLike(b, e.loc, scores, 1 / s.softcap));
    scores =
        graph::MulOp::create(b, e.loc, graph::TanhOp::create(b, e.loc, inner), splatLike(b, e.loc, scores, s.softcap));
  }
  if (s.bias)
    scores = graph::AddOp::create(b, e.loc, scores, broadcastTo(b, e.loc, s.bias, shapeOf(scores)));
  if (s.causal) {
    mlir::Value visible = e.maskValue(Mask{true, s.window, 1, 0}, ElementType::Bool, shapeOf(scores));
    mlir::Value hidden = splatLike(b, e.loc, scores, -std::numeric_limits<double>::infinity());
    scores = graph::SelectOp::create(b, e.loc, scores.getType(), visible, scores, hidden);
  }
  SmallVector<int64_t> shape(shapeOf(scores));
  if (s.sink) { // one more column, which takes its share of the probability and gives nothing
    SmallVector<int64_t> column{shape[0], shape[1], shape[2], 1}, wide(shape);
    ++wide[3];
    mlir::Value sink = broadcastTo(b, e.loc, reshapeTo(b, e.loc, s.sink, {1, heads, 1, 1}), column);
    scores = graph::ConcatOp::create(b, e.loc, RankedTensorType::get(wide, typeOf(scores).getElementType()),
                                     ValueRange{scores, sink}, 3);
  }
  mlir::Value probabilities = graph::SoftmaxOp::create(b, e.loc, scores);
  probabilities = sliceOf(b, e.loc, probabilities, {0, 0, 0, 0}, shape);
  mlir::Value y =
      transposeTo(b, e.loc, graph::MatmulOp::create(b, e.loc, probabilities, v, false, false), {0, 2, 1, 3});
  ArrayRef<int64_t> ys = shapeOf(y);
  return reshapeTo(b, e.loc, y, {ys[0], ys[1], ys[2] * ys[3]});
}

/// Rows of a table (positions, D/2) at the positions of the sequence, as (S, D/2); null after a diagnostic.
mlir::Value rotaryRows(Emitter &e, unsigned input, ArrayRef<int64_t> positions) {
  TensorRef cache = e.constant(input);
  if (!cache)
    return nullptr;
  if (cache->shape.size() != 2 || cache->storage() != HostTensor::Storage::Reals) {
    (void)e.fail("a table of cosines or sines is (positions, half the width)");
    return nullptr;
  }
  int64_t width = cache->shape[1];
  std::vector<float> rows;
  for (int64_t position : positions) {
    if (position < 0 || position >= cache->shape[0]) {
      (void)e.fail("position " + llvm::Twine(position) + " is beyond its table of " + llvm::Twine(cache->shape[0]) +
                   " positions: choose a smaller --seq");
      return nullptr;
    }
    for (int64_t i = 0; i < width; ++i)
      rows.push_back(float(cache->reals[position * width + i]));
  }
  return e.table(rows, {int64_t(positions.size()), width});
}

/// x (B, S, H, D) turned by tables (S, R/2), the first R of D; null after a diagnostic.
mlir::Value rotated(Emitter &e, mlir::Value x, mlir::Value cos, mlir::Value sin, bool interleaved) {
  OpBuilder &b = e.builder;
  SmallVector<int64_t> whole(shapeOf(x)), part(whole);
  part[3] = shapeOf(cos)[1] * 2;
  if (part[3] > whole[3] || shapeOf(sin) != shapeOf(cos) || shapeOf(cos)[0] != whole[1]) {
    (void)e.fail("its tables of cosines and sines do not fit the operand");
    return nullptr;
  }
  mlir::Value head = sliceOf(b, e.loc, x, {0, 0, 0, 0}, part);
  if (!interleaved) {
    head = graph::RopeOp::create(b, e.loc, head, cos, sin, false);
  } else { // pairs (x[2i], x[2i + 1])
    SmallVector<int64_t> pairs{part[0], part[1], part[2], part[3] / 2, 2}, one(pairs);
    one[4] = 1;
    mlir::Value split = reshapeTo(b, e.loc, head, pairs);
    mlir::Value even = sliceOf(b, e.loc, split, {0, 0, 0, 0, 0}, one),
                odd = sliceOf(b, e.loc, split, {0, 0, 0, 0, 1}, one);
    auto wide = [&](mlir::Value table) {
      return broadcastTo(b, e.loc, reshapeTo(b, e.loc, table, {1, part[1], 1, part[3] / 2, 1}), one);
    };
    mlir::Value c = wide(cos), s = wide(sin);
    auto times = [&](mlir::Value a, mlir::Value t) { return graph::MulOp::create(b, e.loc, a, t).getResult(); };
    mlir::Value first = graph::SubOp::create(b, e.loc, times(even, c), times(odd, s));
    mlir::Value second = graph::AddOp::create(b, e.loc, times(even, s), times(odd, c));
    auto type = RankedTensorType::get(pairs, typeOf(x).getElementType());
    head = reshapeTo(b, e.loc, graph::ConcatOp::create(b, e.loc, type, ValueRange{first, second}, 4), part);
  }
  if (part[3] == whole[3])
    return head;
  SmallVector<int64_t> rest(whole);
  rest[3] -= part[3];
  mlir::Value tail = sliceOf(b, e.loc, x, {0, 0, 0, part[3]}, rest);
  return graph::ConcatOp::create(b, e.loc, x.getType(), ValueRange{head, tail}, 3);
}

/// Positions of the sequence: an operand of one offset or (B, S), else from 0. Empty after a diagnostic.
SmallVector<int64_t> positionsOf(Emitter &e, unsigned input, int64_t sequence) {
  SmallVector<int64_t> positions;
  TensorRef given = e.node->hasInput(input) ? e.constant(input) : nullptr;
  if (e.node->hasInput(input) && !given)
    return positions;
  for (int64_t s = 0; s < sequence; ++s)
    positions.push_back(given ? given->count() == 1 ? given->integer(0) + s : given->integer(s) : s);
  for (int64_t i = 0, n = given && given->count() > 1 ? given->count() : 0; i < n; ++i)
    if (given->integer(i) != positions[i % sequence]) {
      (void)e.fail("its positions differ between rows of the batch");
      return {};
    }
  return positions;
}

/// A past has length 0: an empty operand, or none.
bool hasPast(Emitter &e, unsigned input) {
  return e.node->hasInput(input) && !llvm::is_contained(e.input(input).shape, 0);
}

LogicalResult groupQueryAttention(Emitter &e) {
  const Node &node = *e.node;
  if (hasPast(e, 3) || hasPast(e, 4))
    return e.fail("a past that is not empty, which training does not have");
  if (node.hasInput(12) || node.hasInput(13) || node.text("k_quant_type", "NONE") != "NONE" ||
      node.text("v_quant_type", "NONE") != "NONE" || node.integer("qk_output", 0))
    return e.fail("quantized keys and values or scores as a result, which ztc does not emit");
  int64_t heads = node.integer("num_heads", 0), keyHeads = node.integer("kv_num_heads", 0);
  mlir::Value q = e.operand(0);
  if (!q)
    return failure();
  ArrayRef<int64_t> s = shapeOf(q);
  mlir::Value k, v;
  if (node.hasInput(1)) {
    k = e.operand(1);
    v = k ? e.operand(2) : nullptr;
    if (!v)
      return failure();
  } else { // packed: q | k | v
    int64_t width = s[2] / (heads + 2 * keyHeads);
    auto piece = [&](int64_t first, int64_t count) {
      return sliceOf(e.builder, e.loc, e.operand(0), {0, 0, first * width}, {s[0], s[1], count * width});
    };
    k = piece(heads, keyHeads);
    v = piece(heads + keyHeads, keyHeads);
    q = piece(0, heads);
  }
  q = splitHeads(e, q, heads);
  k = splitHeads(e, k, keyHeads);
  v = splitHeads(e, v, keyHeads);
  if (node.integer("do_rotary", 0)) {
    SmallVector<int64_t> positions = positionsOf(e, 9, shapeOf(q)[1]);
    mlir::Value cos = positions.empty() ? nullptr : rotaryRows(e, 7, positions),
                sin = cos ? rotaryRows(e, 8, positions) : nullptr;
    bool interleaved = node.integer("rotary_interleaved", 0);
    q = sin ? rotated(e, q, cos, sin, interleaved) : nullptr;
    k = q ? rotated(e, k, cos, sin, interleaved) : nullptr;
    if (!k)
      return failure();
  }
  Scores scores;
  scores.causal = true;
  scores.scale = node.real("scale", 0);
  scores.softcap = node.real("softcap", 0);
  scores.window = std::max<int64_t>(node.integer("local_window_size", -1), 0);
  if (node.hasInput(10)) {
    scores.bias = e.operand(10);
    if (!scores.bias)
      return failure();
  }
  if (node.hasInput(11)) {
    scores.sink = e.operand(11);
    if (!scores.sink)
      return failure();
  } else if (node.integer("smooth_softmax", 0) > 0) {
    scores.sink = splat(e.builder, e.loc, RankedTensorType::get({heads}, e.builder.getF32Type()), 0);
  }
  e.define(0, attend(e, q, k, v, scores));
  return success();
}

/// Nothing is masked by an operand of ones; what else it may be is refused.
LogicalResult checkPaddingMask(Emitter &e, unsigned input) {
  if (!e.node->hasInput(input))
    return success();
  TensorRef mask = e.constant(input);
  if (!mask)
    return failure();
  bool isLength = mask->shape.size() == 1; // of each row
  for (int64_t i = 0, n = mask->count(); i < n; ++i)
    if (isLength ? mask->integer(i) != e.outputShape()[1] : mask->integer(i) == 0)
      return e.fail("hides positions by a padding mask that is not a row of ones");
  return success();
}

LogicalResult multiHeadAttention(Emitter &e) {
  const Node &node = *e.node;
  int64_t heads = node.integer("num_heads", 0);
  if (hasPast(e, 6) || hasPast(e, 7) || node.hasInput(9))
    return e.fail("a past that is not empty, which training does not have");
  mlir::Value q = e.operand(0), k = q && node.hasInput(1) ? e.operand(1) : nullptr,
              v = k && node.hasInput(2) ? e.operand(2) : nullptr;
  if (!q || !k || !v || typeOf(q).getRank() != 3 || typeOf(k).getRank() != 3 || shapeOf(k)[1] != shapeOf(q)[1])
    return q ? e.fail("takes packed operands or another sequence for keys, which ztc does not emit") : failure();
  if (failed(checkPaddingMask(e, 4)))
    return failure();
  if (node.hasInput(3)) { // biases of q, k and v in one vector
    mlir::Value bias = e.operand(3);
    if (!bias)
      return failure();
    int64_t first = 0;
    for (mlir::Value *x : {&q, &k, &v}) {
      int64_t width = shapeOf(*x)[2];
      mlir::Value piece = sliceOf(e.builder, e.loc, bias, {first}, {width});
      *x = graph::AddOp::create(e.builder, e.loc, *x, broadcastTo(e.builder, e.loc, piece, shapeOf(*x)));
      first += width;
    }
  }
  Scores scores;
  scores.scale = node.real("scale", 0);
  scores.causal = node.integer("unidirectional", 0);
  if (node.hasInput(5)) {
    scores.bias = e.operand(5);
    if (!scores.bias)
      return failure();
  }
  e.define(0, attend(e, splitHeads(e, q, heads), splitHeads(e, k, heads), splitHeads(e, v, heads), scores));
  return success();
}

LogicalResult rotaryEmbedding(Emitter &e) {
  const Node &node = *e.node;
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  if (node.integer("is_packed_batching", 0) || node.real("scale", 1) != 1)
    return e.fail("packed rows or a scale, which ztc does not emit");
  bool hasHeads = typeOf(x).getRank() == 4; // (B, H, S, D)
  int64_t sequence = shapeOf(x)[hasHeads ? 2 : 1];
  SmallVector<int64_t> positions = positionsOf(e, 1, sequence);
  mlir::Value cos = positions.empty() ? nullptr : rotaryRows(e, 2, positions),
              sin = cos ? rotaryRows(e, 3, positions) : nullptr;
  if (!sin)
    return failure();
  int64_t heads = node.integer("num_heads", 0), width = shapeOf(cos)[1] * 2;
  if (!hasHeads && heads <= 0)
    heads = shapeOf(x)[2] / width;
  mlir::Value rows = hasHeads ? transposeTo(e.builder, e.loc, x, {0, 2, 1, 3}) : splitHeads(e, x, heads);
  mlir::Value turned = rotated(e, rows, cos, sin, node.integer("interleaved", 0));
  if (!turned)
    return failure();
  e.define(0, hasHeads ? transposeTo(e.builder, e.loc, turned, {0, 2, 1, 3})
                       : reshapeTo(e.builder, e.loc, turned, e.outputShape()));
  return success();
}

} // namespace

void addContribAttentionEmission(llvm::StringMap<EmitFunction> &t) {
  t["com.microsoft::GroupQueryAttention"] = groupQueryAttention;
  t["com.microsoft::MultiHeadAttention"] = multiHeadAttention;
  t["com.microsoft::RotaryEmbedding"] = rotaryEmbedding;
}

} // namespace ztc::importer
