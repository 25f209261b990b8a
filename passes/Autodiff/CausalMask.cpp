#include "passes/Autodiff/CausalMask.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/RowShape.h"
#include <optional>

using namespace mlir;

namespace ztc {

namespace {

/// Added to or put in place of any score, this leaves no probability in f32.
constexpr double kLowest = -1e9;

/// The elements of a constant where the key lies after the query, all of which must be so.
template <typename Predicate> bool allLater(ElementsAttr data, int64_t query, int64_t key, Predicate isSo) {
  auto type = cast<RankedTensorType>(data.getType());
  ArrayRef<int64_t> shape = type.getShape();
  auto strideOf = [&](int64_t dimension) {
    int64_t stride = 1;
    for (int64_t i = dimension + 1; i < type.getRank(); ++i)
      stride *= shape[i];
    return stride;
  };
  if (auto splat = dyn_cast<SplatElementsAttr>(data))
    return isSo(isa<FloatType>(type.getElementType()) ? splat.getSplatValue<APFloat>().convertToDouble()
                                                      : double(splat.getSplatValue<APInt>().getZExtValue()));
  const int64_t queryStride = strideOf(query), keyStride = strideOf(key);
  if (isa<FloatType>(type.getElementType())) {
    auto values = data.tryGetValues<APFloat>();
    if (!values)
      return false;
    for (auto [i, value] : llvm::enumerate(*values))
      if (int64_t(i) / keyStride % shape[key] > int64_t(i) / queryStride % shape[query] &&
          !isSo(value.convertToDouble()))
        return false;
    return true;
  }
  auto values = data.tryGetValues<APInt>();
  if (!values)
    return false;
  for (auto [i, value] : llvm::enumerate(*values))
    if (int64_t(i) / keyStride % shape[key] > int64_t(i) / queryStride % shape[query] &&
        !isSo(double(value.getZExtValue())))
      return false;
  return true;
}

/// An integer that is ofQuery * q + ofKey * k + constant.
struct Affine {
  int64_t ofQuery = 0, ofKey = 0, constant = 0;
};

/// The operand of an op that moves elements, and where its dimensions are; nothing for other ops.
struct Moved {
  Value operand;
  int64_t query, key;
};
std::optional<Moved> movedBy(Operation *op, int64_t query, int64_t key) {
  if (isa<graph::ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
    Moved moved{op->getOperand(0), sameDimension(from, to, query), sameDimension(from, to, key)};
    return moved.query >= 0 && moved.key >= 0 ? std::optional(moved) : std::nullopt;
  }
  if (auto transpose = dyn_cast<graph::TransposeOp>(op))
    return Moved{transpose.getX(), transpose.getPermutation()[query], transpose.getPermutation()[key]};
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    const int64_t added = int64_t(shapeOf(broadcast.getY()).size() - shapeOf(broadcast.getX()).size());
    Moved moved{broadcast.getX(), query - added, key - added};
    if (moved.query < 0 || moved.key < 0)
      return std::nullopt;
    for (auto [before, after] : {std::pair(moved.query, query), std::pair(moved.key, key)})
      if (shapeOf(broadcast.getX())[before] != shapeOf(broadcast.getY())[after])
        return std::nullopt;
    return moved;
  }
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    // What is cut off after the keys does not count; all queries stay.
    if (slice.getOffsets()[key] == 0 && shapeOf(slice.getX())[query] == shapeOf(slice.getY())[query])
      return Moved{slice.getX(), query, key};
    return std::nullopt;
  }
  if (isa<graph::CastOp>(op))
    return Moved{op->getOperand(0), query, key};
  return std::nullopt;
}

/// What a value is along both dimensions, of which a broadcast may lack one: -1.
std::optional<Affine> affineOf(Value value, int64_t query, int64_t key) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat || !splat.getElementType().isInteger())
      return std::nullopt;
    return Affine{0, 0, splat.getSplatValue<APInt>().getSExtValue()};
  }
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    const auto along = int64_t(iota.getDimension());
    if (along == query)
      return Affine{1, 0, 0};
    if (along == key)
      return Affine{0, 1, 0};
    return shapeOf(value)[along] == 1 ? std::optional(Affine()) : std::nullopt;
  }
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getX()), to = shapeOf(value);
    const int64_t added = int64_t(to.size() - from.size());
    auto before = [&](int64_t along) {
      return along >= added && from[along - added] == to[along] ? along - added : -1;
    };
    return affineOf(broadcast.getX(), before(query), before(key));
  }
  if (isa<graph::ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(value);
    auto before = [&](int64_t along) { return along < 0 ? -1 : sameDimension(from, to, along); };
    if ((query >= 0 && before(query) < 0) || (key >= 0 && before(key) < 0))
      return std::nullopt;
    return affineOf(op->getOperand(0), before(query), before(key));
  }
  if (isa<graph::AddOp, graph::SubOp>(op)) {
    std::optional<Affine> a = affineOf(op->getOperand(0), query, key), b = affineOf(op->getOperand(1), query, key);
    if (!a || !b)
      return std::nullopt;
    const int64_t sign = isa<graph::AddOp>(op) ? 1 : -1;
    return Affine{a->ofQuery + sign * b->ofQuery, a->ofKey + sign * b->ofKey, a->constant + sign * b->constant};
  }
  if (isa<graph::CastOp>(op) && getElementTypeOrSelf(op->getOperand(0)).isInteger())
    return affineOf(op->getOperand(0), query, key);
  return std::nullopt;
}

/// Whether a condition is `wanted` wherever the key lies after the query.
bool isLater(Value condition, int64_t query, int64_t key, bool wanted) {
  Operation *op = condition.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return allLater(constant.getValue(), query, key, [&](double value) { return (value != 0) == wanted; });
  if (auto compare = dyn_cast<graph::CompareOp>(op)) {
    std::optional<Affine> a = affineOf(compare.getA(), query, key), b = affineOf(compare.getB(), query, key);
    if (!a || !b || a->ofQuery - b->ofQuery != b->ofKey - a->ofKey)
      return false;
    // a - b = slope * (k - q) + constant; k - q is 1 at least and one less than the positions at most.
    const int64_t slope = a->ofKey - b->ofKey, constant = a->constant - b->constant;
    const int64_t most = std::max<int64_t>(shapeOf(condition)[query] - 1, 1);
    auto holds = [&](int64_t distance) {
      const int64_t difference = slope * distance + constant;
      switch (compare.getPredicate()) {
      case graph::Comparison::Less:
        return difference < 0;
      case graph::Comparison::LessOrEqual:
        return difference <= 0;
      case graph::Comparison::Greater:
        return difference > 0;
      case graph::Comparison::GreaterOrEqual:
        return difference >= 0;
      case graph::Comparison::Equal:
      case graph::Comparison::NotEqual: // these neither grow nor fall
        break;
      }
      return !wanted;
    };
    return holds(1) == wanted && holds(most) == wanted; // in between too: it grows or falls
  }
  if (auto logic = dyn_cast<graph::LogicOp>(op)) {
    const bool a = isLater(logic.getA(), query, key, wanted), b = isLater(logic.getB(), query, key, wanted);
    if (logic.getFunction() == graph::Logic::And)
      return wanted ? a && b : a || b;
    return logic.getFunction() == graph::Logic::Or && (wanted ? a || b : a && b);
  }
  if (!isa<graph::CastOp>(op))
    if (std::optional<Moved> moved = movedBy(op, query, key))
      return isLater(moved->operand, moved->query, moved->key, wanted);
  return false;
}

} // namespace

int64_t sameDimension(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t along) {
  int64_t before = 1, size = to[along];
  for (int64_t i = 0; i < along; ++i)
    before *= to[i];
  if (size == 1)
    return -1;
  for (auto [i, other] : llvm::enumerate(from)) {
    if (before == 1 && other == size)
      return int64_t(i);
    if (other == 0 || before % other)
      return -1;
    before /= other;
  }
  return -1;
}

bool hidesLater(Value value, int64_t query, int64_t key, Hidden hidden) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto hides = [&](Value other, Hidden what) { return hidesLater(other, query, key, what); };
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return allLater(constant.getValue(), query, key,
                    [&](double number) { return hidden == Hidden::Zero ? number == 0.0 : number <= kLowest; });
  if (auto select = dyn_cast<graph::SelectOp>(op))
    return (hides(select.getA(), hidden) &&
            (hides(select.getB(), hidden) || isLater(select.getCondition(), query, key, true))) ||
           (hides(select.getB(), hidden) && isLater(select.getCondition(), query, key, false));
  if (std::optional<Moved> moved = movedBy(op, query, key))
    return hidesLater(moved->operand, moved->query, moved->key, hidden);
  if (auto concat = dyn_cast<graph::ConcatOp>(op))
    return int64_t(concat.getAxis()) == key && hides(concat.getInputs().front(), hidden);
  if (hidden == Hidden::Lowest) {
    // What is added is a score, or another mask.
    if (isa<graph::AddOp>(op))
      return hides(op->getOperand(0), hidden) || hides(op->getOperand(1), hidden);
    // From which a maximum of the row is taken, which is no less than what a row sees.
    if (isa<graph::SubOp>(op))
      return hides(op->getOperand(0), hidden);
    return false;
  }
  if (auto softmax = dyn_cast<graph::SoftmaxOp>(op))
    return key == int64_t(shapeOf(value).size()) - 1 && hides(softmax.getX(), Hidden::Lowest);
  if (isa<graph::ExpOp>(op))
    return hides(op->getOperand(0), Hidden::Lowest);
  if (isa<graph::MulOp>(op))
    return hides(op->getOperand(0), hidden) || hides(op->getOperand(1), hidden);
  return isa<graph::DivOp>(op) && hides(op->getOperand(0), hidden);
}

} // namespace ztc
