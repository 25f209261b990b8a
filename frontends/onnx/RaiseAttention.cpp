// softmax(cap(scale q k^T) + mask) v on (B, H, S, D), with repeated keys and values, becomes attention on (B, S, H, D);
// cap(x) is c tanh(x / c), or x.
#include "frontends/onnx/Raise.h"
#include <cmath>

using namespace mlir;

namespace ztc::importer {
namespace {

/// Scores below this are invisible: exp of them is 0 in every type, whatever the visible scores are.
constexpr double kInvisible = -60000;

struct MaskFormula {
  bool causal = false;
  int64_t window = 0;
};

bool isIota(Value value, int64_t dimension) {
  auto iota = value.getDefiningOp<graph::IotaOp>();
  return iota && int64_t(iota.getDimension()) == dimension;
}

std::optional<int64_t> splatInteger(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || !dense.isSplat() || !dense.getElementType().isInteger(32))
    return std::nullopt;
  return dense.getSplatValue<APInt>().getSExtValue();
}

/// column <= row, and column > row - window.
std::optional<MaskFormula> visibility(Value value) {
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    value = broadcast.getX();
  int64_t column = typeOf(value).getRank() - 1, row = column - 1;
  if (auto compare = value.getDefiningOp<graph::CompareOp>()) {
    if (compare.getPredicate() == graph::Comparison::LessOrEqual && isIota(compare.getA(), column) &&
        isIota(compare.getB(), row))
      return MaskFormula{true, 0};
    auto first =
        compare.getPredicate() == graph::Comparison::Greater ? compare.getB().getDefiningOp<graph::SubOp>() : nullptr;
    std::optional<int64_t> window = first && isIota(compare.getA(), column) && isIota(first.getA(), row)
                                        ? splatInteger(first.getB())
                                        : std::nullopt;
    if (window && *window > 0)
      return MaskFormula{false, *window};
    return std::nullopt;
  }
  auto both = value.getDefiningOp<graph::LogicOp>();
  if (!both || both.getFunction() != graph::Logic::And)
    return std::nullopt;
  std::optional<MaskFormula> a = visibility(both.getA()), b = visibility(both.getB());
  if (!a || !b)
    return std::nullopt;
  int64_t window = a->window && b->window ? std::min(a->window, b->window) : std::max(a->window, b->window);
  return MaskFormula{a->causal || b->causal, window};
}

/// What `condition` denies, or null.
Value negated(Value condition) {
  if (auto broadcast = condition.getDefiningOp<graph::BroadcastOp>())
    condition = broadcast.getX();
  auto negation = condition.getDefiningOp<graph::LogicOp>();
  auto constant = negation && negation.getFunction() == graph::Logic::Xor
                      ? negation.getB().getDefiningOp<graph::ConstantOp>()
                      : nullptr;
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat() && dense.getSplatValue<bool>() ? negation.getA() : Value();
}

/// Scores where a condition lets them be seen, a number elsewhere.
struct MaskedScores {
  Value visible, scores, hidden;
};

MaskedScores maskedScores(graph::SelectOp select) {
  if (Value visible = negated(select.getCondition()))
    return {visible, select.getB(), select.getA()};
  return {select.getCondition(), select.getA(), select.getB()};
}

/// A mask that is added: 0 where visible, very negative elsewhere.
std::optional<MaskFormula> additiveMask(Value value) {
  if (splatValue(value) == 0.0)
    return MaskFormula{};
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    value = broadcast.getX();
  auto select = value.getDefiningOp<graph::SelectOp>();
  if (!select || splatValue(select.getA()) != 0.0)
    return std::nullopt;
  std::optional<double> hidden = splatValue(select.getB());
  return hidden && *hidden <= kInvisible ? visibility(select.getCondition()) : std::nullopt;
}

/// The value under scalar factors and swaps of the last two dimensions.
struct Factor {
  Value value;
  SmallVector<double> scales;
  bool isTransposed = false;
};

Factor peel(Value value) {
  Factor factor{value, {}, false};
  while (true) {
    if (auto product = factor.value.getDefiningOp<graph::MulOp>()) {
      std::optional<double> a = splatValue(product.getA()), b = splatValue(product.getB());
      if (!a && !b)
        return factor;
      factor.scales.push_back(b ? *b : *a);
      factor.value = b ? product.getA() : product.getB();
    } else if (auto quotient = factor.value.getDefiningOp<graph::DivOp>(); quotient && splatValue(quotient.getB())) {
      factor.scales.push_back(1 / *splatValue(quotient.getB()));
      factor.value = quotient.getA();
    } else if (auto transpose = factor.value.getDefiningOp<graph::TransposeOp>();
               transpose && transpose.getPermutation() == ArrayRef<int64_t>{0, 1, 3, 2}) {
      factor.isTransposed = !factor.isTransposed;
      factor.value = transpose.getX();
    } else {
      return factor;
    }
  }
}

/// (B, Hkv, S, D) where `value` repeats each of its heads in place: reshape(broadcast(reshape(x))), or a broadcast of
/// the only head.
Value unrepeated(Value value) {
  if (auto single = value.getDefiningOp<graph::BroadcastOp>(); single && typeOf(single.getX()).getRank() == 4) {
    SmallVector<int64_t> one(shapeOf(value));
    one[1] = 1;
    return shapeOf(single.getX()) == ArrayRef<int64_t>(one) ? single.getX() : value;
  }
  auto merge = value.getDefiningOp<graph::ReshapeOp>();
  auto broadcast = merge ? merge.getX().getDefiningOp<graph::BroadcastOp>() : nullptr;
  auto split = broadcast ? broadcast.getX().getDefiningOp<graph::ReshapeOp>() : nullptr;
  if (!split || typeOf(split.getX()).getRank() != 4 || typeOf(broadcast).getRank() != 5)
    return value;
  ArrayRef<int64_t> x = shapeOf(split.getX()), wide = shapeOf(broadcast), narrow = shapeOf(split), to = shapeOf(value);
  bool fits = narrow == ArrayRef<int64_t>{x[0], x[1], 1, x[2], x[3]} &&
              wide == ArrayRef<int64_t>{x[0], x[1], wide[2], x[2], x[3]} &&
              to == ArrayRef<int64_t>{x[0], x[1] * wide[2], x[2], x[3]};
  return fits ? split.getX() : value;
}

/// The product of the factors; two equal ones that are the f32 square root of D^-1/2 (exporters scale q and k alike)
/// are D^-1/2.
double scaleOf(ArrayRef<double> scales, int64_t width) {
  double wanted = 1 / std::sqrt(double(width));
  if (scales.size() == 2 && scales[0] == scales[1] && float(scales[0]) == std::sqrt(float(wanted)))
    return wanted;
  double product = 1;
  for (double scale : scales)
    product *= scale;
  return float(product) == float(wanted) ? wanted : product;
}

/// Scores under their cap, if they have one.
struct CappedScores {
  Factor scaled;  ///< what is capped
  double cap = 0; ///< 0: none

  /// Matches cap * tanh(x / cap); other factors of the tanh's operand stay in `scaled`. Without a tanh the cap is 0.
  /// Fails if the cap is not a normal f32, which kernels need.
  static std::optional<CappedScores> of(Value scores) {
    CappedScores capped{peel(scores)};
    auto tanh = capped.scaled.value.getDefiningOp<graph::TanhOp>();
    if (!tanh)
      return capped;
    double outer = 1;
    for (double scale : capped.scaled.scales)
      outer *= scale;
    if (capped.scaled.isTransposed || !std::isnormal(float(outer)))
      return std::nullopt;
    capped.cap = std::abs(outer);
    capped.scaled = peel(tanh.getX());
    SmallVector<double> &scales = capped.scaled.scales;
    auto *quotient = llvm::find_if(scales, [&](double scale) { return float(scale) == float(1 / outer); });
    if (quotient != scales.end())
      scales.erase(quotient);
    else
      scales.push_back(outer);
    return capped;
  }
};

Value match(OpBuilder &builder, graph::MatmulOp root) {
  if (typeOf(root).getRank() != 4 || root.getTransposeA() || root.getTransposeB())
    return nullptr;
  Value probabilities = root.getA();
  if (auto guard =
          probabilities.getDefiningOp<graph::SelectOp>()) { // a row without NaN is itself; every row sees its diagonal
    auto isNaN = guard.getCondition().getDefiningOp<graph::CompareOp>();
    if (!isNaN || isNaN.getPredicate() != graph::Comparison::NotEqual || isNaN.getA() != isNaN.getB() ||
        isNaN.getA() != guard.getB() || splatValue(guard.getA()) != 0.0)
      return nullptr;
    probabilities = guard.getB();
  }
  auto softmax = probabilities.getDefiningOp<graph::SoftmaxOp>();
  if (!softmax)
    return nullptr;
  Value scores = softmax.getX();
  MaskFormula mask;
  if (auto sum = scores.getDefiningOp<graph::AddOp>()) {
    bool found = eitherOrder(sum, [&](Value x, Value added) {
      std::optional<MaskFormula> formula = additiveMask(added);
      if (formula) {
        mask = *formula;
        scores = x;
      }
      return formula.has_value();
    });
    if (!found)
      return nullptr;
  } else if (auto select = scores.getDefiningOp<graph::SelectOp>()) {
    MaskedScores masked = maskedScores(select);
    std::optional<MaskFormula> formula = visibility(masked.visible);
    std::optional<double> hidden = splatValue(masked.hidden);
    if (!formula || !hidden || *hidden > kInvisible)
      return nullptr;
    mask = *formula;
    scores = masked.scores;
  }
  if (mask.window && !mask.causal)
    return nullptr;
  std::optional<CappedScores> capped = CappedScores::of(scores);
  if (!capped)
    return nullptr;
  const Factor &scaled = capped->scaled;
  auto product = scaled.value.getDefiningOp<graph::MatmulOp>();
  if (!product || scaled.isTransposed || typeOf(product).getRank() != 4)
    return nullptr;
  Factor q = peel(product.getA()), k = peel(product.getB());
  if (q.isTransposed != product.getTransposeA() || k.isTransposed == product.getTransposeB())
    return nullptr;
  Value key = unrepeated(k.value), value = unrepeated(root.getB());
  Factor inside = peel(key); // a scale before the repetition
  if (inside.isTransposed)
    return nullptr;
  key = inside.value;
  ArrayRef<int64_t> qs = shapeOf(q.value), ks = shapeOf(key);
  if (ks != shapeOf(value) || qs[0] != ks[0] || qs[2] != ks[2] || qs[3] != ks[3] || qs[1] % ks[1] != 0 ||
      shapeOf(root) != qs)
    return nullptr;
  SmallVector<double> scales(q.scales);
  scales.append(k.scales);
  scales.append(inside.scales);
  scales.append(scaled.scales);
  Location loc = root.getLoc();
  auto turned = [&](Value x) { return transposeTo(builder, loc, x, {0, 2, 1, 3}); };
  Value query = turned(q.value);
  auto attention = graph::AttentionOp::create(
      builder, loc, query.getType(), Type(), query, turned(key), turned(value), Value(),
      builder.getF64FloatAttr(scaleOf(scales, qs[3])), mask.causal ? builder.getUnitAttr() : UnitAttr(),
      builder.getI64IntegerAttr(mask.window), builder.getF64FloatAttr(capped->cap));
  return turned(attention.getOut());
}

} // namespace

unsigned raiseAttention(func::FuncOp function) {
  return forEachOp<graph::MatmulOp>(function, match);
}

} // namespace ztc::importer
