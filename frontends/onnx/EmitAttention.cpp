// Emission of Attention and RotaryEmbedding; the idioms of attention and rope find the common forms again.
#include "frontends/onnx/Emitter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

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

/// ONNX Attention written out: scores of queries (B, Hq, Sq, D) against keys (B, Hkv, Sk, D), hidden where a mask, the
/// causal order or the number of keys hides, softmax, times values (B, Hkv, Sk, Dv).
class AttentionEmission {
public:
  explicit AttentionEmission(Emitter &e) : e(e) {}

  LogicalResult run() {
    if (failed(readOperands()))
      return failure();
    double scale = e.node->real("scale", 1 / std::sqrt(double(shapeOf(q)[3])));
    scores = graph::MatmulOp::create(e.builder, e.loc, q, k, false, true);
    scores = graph::MulOp::create(e.builder, e.loc, scores, splatLike(e.builder, e.loc, scores, scale));
    int64_t mode = e.node->integer("qk_matmul_output_mode", 0);
    if (mode == 0)
      e.define(3, scores);
    if (double cap = e.node->real("softcap", 0); cap > 0) {
      Expr v = e.expr(scores) / cap;
      scores = (e.expr(graph::TanhOp::create(e.builder, e.loc, v.value())) * cap).value();
    }
    if (mode == 1)
      e.define(3, scores);
    if (failed(hideCausal()) || failed(hideMasked()) || failed(hideUnused()))
      return failure();
    if (mode == 2)
      e.define(3, scores);
    mlir::Value probabilities = graph::SoftmaxOp::create(e.builder, e.loc, scores);
    if (mayHideRows) {
      Expr most = reduceMaxLast(e.expr(scores)), p = e.expr(probabilities);
      Expr isHidden = broadcastLike(most, p) == constantLike(p, kHidden);
      probabilities = select(isHidden, zeroLike(p), p).value();
    }
    if (mode == 3)
      e.define(3, probabilities);
    mlir::Value y = graph::MatmulOp::create(e.builder, e.loc, probabilities, v, false, false);
    e.define(
        0, hasHeads ? y : reshapeTo(e.builder, e.loc, transposeTo(e.builder, e.loc, y, {0, 2, 1, 3}), e.outputShape()));
    return success();
  }

private:
  /// (B, S, H * D) to (B, H, S, D).
  mlir::Value withHeads(mlir::Value x, StringRef attribute) {
    int64_t heads = e.node->integer(attribute, 0);
    if (hasHeads || heads <= 0)
      return x;
    ArrayRef<int64_t> s = shapeOf(x);
    return transposeTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, x, {s[0], s[1], heads, s[2] / heads}),
                       {0, 2, 1, 3});
  }

  /// A past of length 0 falls away.
  mlir::Value afterPast(mlir::Value x, unsigned input) {
    if (!e.node->hasInput(input))
      return x;
    const Shape past = e.input(input).shape;
    if (past.size() != 4 || llvm::is_contained(past, 0))
      return x;
    mlir::Value before = e.operand(input);
    if (!before)
      return nullptr;
    pastLength = past[2];
    return concatOf(e.builder, e.loc, {before, x}, 2);
  }

  LogicalResult readOperands() {
    q = e.operand(0);
    k = q ? e.operand(1) : nullptr;
    v = k ? e.operand(2) : nullptr;
    if (!v)
      return failure();
    hasHeads = typeOf(q).getRank() == 4;
    q = withHeads(q, "q_num_heads");
    k = afterPast(withHeads(k, "kv_num_heads"), 4);
    v = k ? afterPast(withHeads(v, "kv_num_heads"), 5) : nullptr;
    if (!v)
      return failure();
    e.define(1, k);
    e.define(2, v);
    int64_t heads = shapeOf(q)[1];
    if (shapeOf(k)[1] == 0 || heads % shapeOf(k)[1] != 0 || shapeOf(v)[1] != shapeOf(k)[1])
      return e.fail("the number of its query heads is not a multiple of that of its key heads");
    k = repeatHeads(e, k, heads);
    v = repeatHeads(e, v, heads);
    return success();
  }

  void hide(mlir::Value visible) {
    mlir::Value hidden = splatLike(e.builder, e.loc, scores, kHidden);
    scores = graph::SelectOp::create(e.builder, e.loc, scores.getType(), visible, scores, hidden);
  }

  /// The number of keys of each row of the batch, (B, 1, 1, 1), as wide as the scores.
  std::optional<Expr> keyCounts() {
    mlir::Value counts = e.operand(6);
    if (!counts)
      return std::nullopt;
    counts = reshapeTo(e.builder, e.loc, counts, {typeOf(counts).getNumElements(), 1, 1, 1});
    return e.expr(broadcastTo(e.builder, e.loc, counts, shapeOf(scores)));
  }

  /// Query i sees key j <= i + offset: what a past holds, or the keys that are there less the queries.
  LogicalResult hideCausal() {
    if (!e.node->integer("is_causal", 0))
      return success();
    ArrayRef<int64_t> shape = shapeOf(scores);
    bool counted = e.node->hasInput(6);
    if (!counted && pastLength == 0 && shape[2] == shape[3] && e.isSequence(shape[2])) {
      hide(e.maskValue(Mask{true, 0, 1, 0}, ElementType::Bool, shape));
      return success();
    }
    SmallVector<int64_t> square{1, 1, shape[2], shape[3]};
    Expr row = e.expr(iotaOf(e.builder, e.loc, square, 2)), column = e.expr(iotaOf(e.builder, e.loc, square, 3));
    if (!counted) {
      hide(broadcastTo(e.builder, e.loc, (column <= row + double(pastLength)).value(), shape));
      return success();
    }
    std::optional<Expr> counts = keyCounts();
    if (!counts)
      return failure();
    mayHideRows = true;
    Expr wideRow = broadcastLike(row, *counts), wideColumn = broadcastLike(column, *counts);
    hide((wideColumn <= wideRow + *counts - double(shape[2])).value());
    return success();
  }

  LogicalResult hideMasked() {
    if (!e.node->hasInput(3))
      return success();
    mlir::Value mask = e.operand(3);
    if (!mask)
      return failure();
    ArrayRef<int64_t> shape = shapeOf(scores);
    bool isBool = typeOf(mask).getElementType().isInteger(1);
    int64_t rank = typeOf(mask).getRank(), missing = rank ? shape[3] - shapeOf(mask).back() : 0;
    if (missing > 0 && shapeOf(mask).back() != 1) { // keys that it says nothing of are hidden
      SmallVector<int64_t> low(rank, 0), high(rank, 0);
      high.back() = missing;
      mask = padWith(e.builder, e.loc, mask, low, high, isBool ? 0 : kHidden);
    }
    mayHideRows |= hidesWholeRows();
    mask = broadcastTo(e.builder, e.loc, mask, shape);
    if (isBool)
      hide(mask);
    else
      scores = graph::AddOp::create(e.builder, e.loc, scores, mask);
    return success();
  }

  /// Whether a row of the mask has no visible key, alone or with the causal order, as far as it is known.
  bool hidesWholeRows() {
    if (e.isLive(3))
      return true;
    TensorRef mask = e.constant(3);
    if (!mask || mask->shape.empty())
      return false;
    int64_t columns = mask->shape.back(), rows = mask->shape.size() > 1 ? mask->shape[mask->shape.size() - 2] : 1;
    bool causal = e.node->integer("is_causal", 0) != 0;
    for (int64_t start = 0, n = mask->count(); start < n; start += columns) {
      int64_t row = rows == 1 ? 0 : start / columns % rows, seen = 0;
      for (int64_t j = 0; j < columns && (!causal || j <= row + pastLength); ++j)
        seen += mask->storage() == HostTensor::Storage::Bits ? mask->bits[start + j] != 0
                                                             : mask->real(start + j) != kHidden;
      if (!seen)
        return true;
    }
    return false;
  }

  LogicalResult hideUnused() {
    if (!e.node->hasInput(6))
      return success();
    std::optional<Expr> counts = keyCounts();
    if (!counts)
      return failure();
    mayHideRows = true;
    Expr column = e.expr(iotaOf(e.builder, e.loc, shapeOf(scores), 3));
    hide((column < *counts).value());
    return success();
  }

  Emitter &e;
  mlir::Value q, k, v, scores;
  bool hasHeads = false, mayHideRows = false;
  int64_t pastLength = 0;
};

LogicalResult attention(Emitter &e) {
  return AttentionEmission(e).run();
}

/// The (S, D/2) table of an operand (B or 1, S, D/2) whose batches are equal; null where they are not.
mlir::Value rotaryTable(Emitter &e, unsigned input) {
  if (e.isLive(input) || e.node->hasInput(3))
    return nullptr;
  TensorRef tensor = e.constant(input);
  if (!tensor)
    return nullptr;
  return e.onceOf(tensor, [&]() -> mlir::Value {
    Shape shape = tensor->shape;
    if (shape.size() == 2)
      shape.insert(shape.begin(), 1);
    int64_t slab = shape.size() == 3 ? shape[1] * shape[2] : 0;
    std::vector<float> table;
    for (int64_t i = 0, n = tensor->count(); i < n && slab; ++i) {
      if (i < slab)
        table.push_back(float(tensor->real(i)));
      else if (table[i % slab] != float(tensor->real(i)))
        slab = 0;
    }
    return slab ? e.table(table, {shape[1], shape[2]}) : nullptr;
  });
}

/// An operand of cosines or sines as (B or 1, S, 1, D/2): rows of a cache by position, where there are positions.
mlir::Value rotaryRows(Emitter &e, unsigned input) {
  mlir::Value cache = e.operand(input);
  if (!cache)
    return nullptr;
  if (e.node->hasInput(3)) {
    mlir::Value positions = e.operand(3);
    if (!positions)
      return nullptr;
    cache = lookUpRows(e.builder, e.loc, cache, positions);
  }
  ArrayRef<int64_t> s = shapeOf(cache);
  if (s.size() < 2)
    return nullptr;
  return reshapeTo(e.builder, e.loc, cache, {s.size() == 3 ? s[0] : 1, s[s.size() - 2], 1, s.back()});
}

/// The halves of the rotated part of each head, or its even and odd elements.
LogicalResult rotateRows(Emitter &e, mlir::Value rows, int64_t turned, mlir::Value &result) {
  mlir::Value cosines = rotaryRows(e, 1), sines = cosines ? rotaryRows(e, 2) : nullptr;
  if (!sines)
    return e.fail("has no rotary tables");
  SmallVector<int64_t> shape(shapeOf(rows)), offsets(4, 0), half = shape;
  half[3] = turned / 2;
  bool interleaved = e.node->integer("interleaved", 0) != 0;
  auto part = [&](int64_t which) {
    if (interleaved) {
      SmallVector<int64_t> positions;
      for (int64_t i = 0; i < half[3]; ++i)
        positions.push_back(2 * i + which);
      return e.expr(takeAlong(e.builder, e.loc, rows, 3, positions));
    }
    SmallVector<int64_t> from{0, 0, 0, which * half[3]};
    return e.expr(sliceOf(e.builder, e.loc, rows, from, half));
  };
  Expr first = part(0), second = part(1);
  Expr cosine = e.expr(broadcastTo(e.builder, e.loc, cosines, half)),
       sine = e.expr(broadcastTo(e.builder, e.loc, sines, half));
  Expr real = cosine * first - sine * second, imaginary = sine * first + cosine * second;
  SmallVector<int64_t> wide = half;
  wide[3] = turned;
  if (interleaved) {
    SmallVector<int64_t> pairs{half[0], half[1], half[2], half[3], 1};
    Expr joined = graph::concat({reshape(real, pairs), reshape(imaginary, pairs)}, 4);
    result = reshape(joined, wide).value();
  } else {
    result = graph::concat({real, imaginary}, 3).value();
  }
  if (turned < shape[3]) {
    offsets[3] = turned;
    SmallVector<int64_t> rest = shape;
    rest[3] -= turned;
    result = concatOf(e.builder, e.loc, {result, sliceOf(e.builder, e.loc, rows, offsets, rest)}, 3);
  }
  return success();
}

LogicalResult rotary(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  bool hasHeads = typeOf(x).getRank() == 4;
  int64_t heads = e.node->integer("num_heads", 0);
  if (!hasHeads && (heads <= 0 || typeOf(x).getRank() != 3 || shapeOf(x)[2] % heads))
    return e.fail("three-dimensional operands need num_heads");
  ArrayRef<int64_t> s = shapeOf(x);
  mlir::Value rows = hasHeads ? transposeTo(e.builder, e.loc, x, {0, 2, 1, 3})
                              : reshapeTo(e.builder, e.loc, x, {s[0], s[1], heads, s[2] / heads});
  int64_t width = shapeOf(rows)[3], turned = e.node->integer("rotary_embedding_dim", 0);
  turned = turned ? turned : width;
  if (turned % 2 || turned > width)
    return e.fail("rotates " + llvm::Twine(turned) + " elements of heads of " + llvm::Twine(width));
  bool isPlain = turned == width && !e.node->integer("interleaved", 0);
  mlir::Value cos = isPlain ? rotaryTable(e, 1) : nullptr, sin = cos ? rotaryTable(e, 2) : nullptr, y;
  if (sin && shapeOf(cos)[0] == shapeOf(rows)[1] && shapeOf(cos)[1] * 2 == width)
    y = graph::RopeOp::create(e.builder, e.loc, rows, cos, sin, false);
  else if (failed(rotateRows(e, rows, turned, y)))
    return failure();
  e.define(0,
           hasHeads ? transposeTo(e.builder, e.loc, y, {0, 2, 1, 3}) : reshapeTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

} // namespace

void addAttentionEmission(llvm::StringMap<EmitFunction> &t) {
  t["Attention"] = attention;
  t["RotaryEmbedding"] = rotary;
}

} // namespace ztc::importer
