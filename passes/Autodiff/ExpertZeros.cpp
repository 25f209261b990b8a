#include "passes/Autodiff/ExpertZeros.h"
#include "compiler/Dialect/Graph/Comparison.h"
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Mixture.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc {
namespace {

using graph::tensorOf;

/// A logit of this or less has no share that a float can hold beside one that a model computes: what hides it is
/// -infinity, the lowest number of a type, or a round number like -1e9.
constexpr double kHidden = -1e9;

using Numeral = std::optional<double>;

/// f of one number, where the op is such a function.
Numeral foldUnary(Operation *op, double x) {
  return llvm::TypeSwitch<Operation *, Numeral>(op)
      .Case([&](graph::NegOp) { return -x; })
      .Case([&](graph::AbsOp) { return std::fabs(x); })
      .Case([&](graph::ExpOp) { return std::exp(x); })
      .Case([&](graph::SqrtOp) { return std::sqrt(x); })
      .Case([&](graph::SigmoidOp) { return 1 / (1 + std::exp(-x)); })
      .Case([&](graph::TanhOp) { return std::tanh(x); })
      .Case([&](graph::ErfOp) { return std::erf(x); })
      .Case([&](graph::SinOp) { return std::sin(x); })
      .Case([&](graph::CosOp) { return std::cos(x); })
      .Case([&](graph::AtanOp) { return std::atan(x); })
      .Case([&](graph::Expm1Op) { return std::expm1(x); })
      .Case([&](graph::Log1pOp) { return std::log1p(x); })
      .Case([&](graph::CastOp) { return x; })
      .Case([&](graph::PowerOp power) { return std::pow(x, power.getExponent().convertToDouble()); })
      .Default([](Operation *) { return std::nullopt; });
}

Numeral foldLogic(graph::Logic function, Numeral a, Numeral b) {
  if (function == graph::Logic::And && (a == 0.0 || b == 0.0))
    return 0;
  if (!a || !b)
    return std::nullopt;
  return double(graph::combineBits(function, int64_t(*a), int64_t(*b)));
}

/// The element of an op's result where its operands' elements are `known`, or not known.
Numeral foldElement(Operation *op, ArrayRef<Numeral> known) {
  if (known.size() == 1)
    return known[0] ? foldUnary(op, *known[0]) : std::nullopt;
  if (isa<graph::SelectOp>(op))
    return known[0] ? known[*known[0] != 0 ? 1 : 2] : std::nullopt;
  if (known.size() != 2)
    return std::nullopt;
  const Numeral a = known[0], b = known[1];
  if ((isa<graph::MulOp, graph::SwigluOp>(op) && (a == 0.0 || b == 0.0)) || (isa<graph::DivOp>(op) && a == 0.0))
    return 0;
  if (auto logic = dyn_cast<graph::LogicOp>(op))
    return foldLogic(logic.getFunction(), a, b);
  if (!a || !b)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, Numeral>(op)
      .Case([&](graph::AddOp) { return *a + *b; })
      .Case([&](graph::SubOp) { return *a - *b; })
      .Case([&](graph::MulOp) { return *a * *b; })
      .Case([&](graph::DivOp) { return *a / *b; })
      .Case([&](graph::MaximumOp) { return std::max(*a, *b); })
      .Case([&](graph::MinimumOp) { return std::min(*a, *b); })
      .Case([&](graph::CompareOp compare) { return double(graph::holds(compare.getPredicate(), *a, *b)); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Whether positions that differ in the digit differ in this dimension.
bool touches(const Digit &digit, ArrayRef<int64_t> shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dimension + 1))
    stride *= size;
  return digit.size > 1 && digit.stride < stride * shape[dimension] && digit.stride * digit.size > stride;
}

bool overlap(const Digit &a, const Digit &b) {
  return a.size > 1 && b.size > 1 && a.stride < b.stride * b.size && b.stride < a.stride * a.size;
}

/// Whether the digit is a dimension of its own, this one.
bool isDimension(const Digit &digit, ArrayRef<int64_t> shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dimension + 1))
    stride *= size;
  return digit.size == shape[dimension] && digit.stride == stride;
}

/// The digits of `Known` (zeros, or numbers of experts) once its value's dimensions are elsewhere; nothing where that
/// separates them.
template <typename Known>
std::optional<Known> moved(Known known, llvm::function_ref<std::optional<Digit>(Digit)> move) {
  auto moveOne = [&](Digit &digit) {
    std::optional<Digit> there = move(digit);
    digit = there.value_or(digit);
    return there.has_value();
  };
  bool all = moveOne(known.tokens) && (!known.choice || moveOne(*known.choice));
  if constexpr (std::is_same_v<Known, ExpertZeros>)
    all = all && (!known.experts || moveOne(*known.experts));
  return all ? std::optional(std::move(known)) : std::nullopt;
}

/// What an op that arranges elements makes of what is known of its operand; nothing of other ops.
template <typename Known> std::optional<Known> arranged(Operation &op, const Known &known) {
  if (isa<graph::ReshapeOp>(op))
    return known;
  ArrayRef<int64_t> from = tensorOf(op.getOperand(0)).getShape(), to = tensorOf(op.getResult(0)).getShape();
  if (isa<graph::BroadcastOp>(op))
    return moved(known, [&](Digit digit) { return repeatedDigit(digit, from, to); });
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    SmallVector<int64_t> placeOf(from.size());
    for (auto [place, dimension] : llvm::enumerate(transpose.getPermutation()))
      placeOf[dimension] = int64_t(place);
    return moved(known, [&](Digit digit) { return movedDigit(digit, from, to, placeOf); });
  }
  auto slice = dyn_cast<graph::SliceOp>(op);
  if (!slice)
    return std::nullopt;
  Known taken = known;
  for (auto [dimension, size] : llvm::enumerate(to)) {
    const int64_t offset = slice.getOffsets()[dimension];
    if (size != 1 || from[dimension] == 1)
      continue;
    if (taken.choice && isDimension(*taken.choice, from, int64_t(dimension))) {
      taken.choice.reset();
      if constexpr (std::is_same_v<Known, ExpertZeros>) {
        taken.choices = {taken.choices[offset]};
        if (!taken.weights.empty())
          taken.weights = {taken.weights[offset]};
      } else {
        taken.columns = {taken.columns[offset]};
      }
    }
    if constexpr (std::is_same_v<Known, ExpertZeros>)
      if (taken.experts && isDimension(*taken.experts, from, int64_t(dimension))) {
        taken.experts.reset();
        taken.expert = offset;
      }
  }
  return moved(std::move(taken), [&](Digit digit) { return repeatedDigit(digit, from, to); });
}

} // namespace

bool ExpertZeros::hasFrameOf(const ExpertZeros &other) const {
  return tokens == other.tokens && experts == other.experts && (experts || expert == other.expert) &&
         choice == other.choice && count == other.count;
}

ExpertZeroAnalysis::ExpertZeroAnalysis(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    note(op);
}

const ExpertZeros *ExpertZeroAnalysis::of(Value value) const {
  auto found = zeros.find(value);
  return found == zeros.end() ? nullptr : &found->second;
}

bool ExpertZeroAnalysis::areDistinct(ArrayRef<TokenColumn> choices) const {
  auto isTakenFrom = [&](const TokenColumn &one, const TokenColumn &other) {
    auto found = maxima.find(one.value);
    return found != maxima.end() && llvm::is_contained(found->second.without, other);
  };
  for (auto [index, one] : llvm::enumerate(choices))
    for (const TokenColumn &other : choices.drop_front(index + 1))
      if (!isTakenFrom(one, other) && !isTakenFrom(other, one))
        return false;
  return true;
}

void ExpertZeroAnalysis::note(Operation &op) {
  if (op.getNumResults() != 1)
    return;
  const Value result = op.getResult(0);
  auto isStatic = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.hasStaticShape();
  };
  if (!isStatic(result) || !llvm::all_of(op.getOperands(), isStatic))
    return;
  if (std::optional<Numbers> found = numbersOf(op))
    numbers[result] = std::move(*found);
  if (std::optional<ExpertZeros> found = zerosOf(op))
    zeros[result] = std::move(*found);
}

/// Whether `value` is below 0, or 0 where `x` is a number and `otherwise` where it is none.
static bool isBelowPlaces(Value value, Value x, Value otherwise) {
  if (Numeral number = splatOf(value))
    return *number < 0;
  auto select = value.getDefiningOp<graph::SelectOp>();
  auto compare = select ? withoutReshapes(select.getCondition()).getDefiningOp<graph::CompareOp>() : graph::CompareOp();
  return compare && compare.getPredicate() == graph::Comparison::LessOrEqual &&
         withoutReshapes(compare.getA()) == withoutReshapes(x) &&
         splatOf(compare.getB()) == std::numeric_limits<double>::infinity() && splatOf(select.getA()) == 0.0 &&
         select.getB() == otherwise;
}

/// N - 1 - max(is the maximum ? N - 1 - place : none): importers write the first place of a maximum so.
std::optional<ExpertZeroAnalysis::Numbers> ExpertZeroAnalysis::placeOfMaximum(Operation &op) {
  auto last = dyn_cast<graph::SubOp>(op);
  const Numeral end = last ? splatOf(last.getA()) : std::nullopt;
  auto most = end ? withoutReshapes(last.getB()).getDefiningOp<graph::ReduceMaxOp>() : graph::ReduceMaxOp();
  auto select = most ? most.getX().getDefiningOp<graph::SelectOp>() : graph::SelectOp();
  auto compare = select ? select.getCondition().getDefiningOp<graph::CompareOp>() : graph::CompareOp();
  if (!compare || compare.getPredicate() != graph::Comparison::Equal ||
      !isBelowPlaces(select.getB(), compare.getA(), select.getA()))
    return std::nullopt;
  const int64_t count = int64_t(*end) + 1;
  const std::optional<Digit> places = countedDownDigit(select.getA(), *end);
  const Value place = op.getResult(0);
  const int64_t tokens = tensorOf(place).getNumElements();
  if (places != Digit{1, count} || tensorOf(select).getNumElements() != tokens * count)
    return std::nullopt;
  Maximum &maximum = maxima[place];
  maximum.x = compare.getA();
  // Where the places that were found are hidden from the next search.
  for (Value from = maximum.x; auto without = from.getDefiningOp<graph::SelectOp>(); from = without.getB()) {
    const ExpertZeros *hit = of(without.getCondition());
    if (!hit || hit->inside != 1.0 || hit->outside != 0 || splatOf(without.getA()).value_or(0) > kHidden)
      break;
    maximum.without.append(hit->choices);
  }
  return Numbers{Digit{1, tokens}, std::nullopt, {{place, 0, 1}}, count};
}

std::optional<ExpertZeroAnalysis::Numbers> ExpertZeroAnalysis::numbersOf(Operation &op) {
  if (std::optional<Numbers> place = placeOfMaximum(op))
    return place;
  if (op.getNumOperands() == 0)
    return std::nullopt;
  auto of = [&](Value value) -> const Numbers * {
    auto found = numbers.find(value);
    return found == numbers.end() ? nullptr : &found->second;
  };
  // A number below 0 would count from the end.
  if (auto select = dyn_cast<graph::SelectOp>(op)) {
    auto compare = select.getCondition().getDefiningOp<graph::CompareOp>();
    const bool isForNegative = compare && compare.getPredicate() == graph::Comparison::Less &&
                               compare.getA() == select.getB() && splatOf(compare.getB()) == 0.0;
    const Numbers *same = isForNegative ? of(select.getB()) : nullptr;
    return same ? std::optional(*same) : std::nullopt;
  }
  const Numbers *first = of(op.getOperand(0));
  if (!first)
    return std::nullopt;
  if (isa<graph::CastOp>(op) || (isa<graph::MulOp>(op) && splatOf(op.getOperand(1)) == 1.0))
    return *first;
  auto concat = dyn_cast<graph::ConcatOp>(op);
  if (!concat)
    return arranged(op, *first);
  ArrayRef<int64_t> to = tensorOf(op.getResult(0)).getShape();
  Numbers all;
  for (Value input : concat.getInputs()) {
    const Numbers *one = of(input);
    ArrayRef<int64_t> from = tensorOf(input).getShape();
    std::optional<Numbers> there;
    if (one && !one->choice && from[concat.getAxis()] == 1)
      there = moved(*one, [&](Digit digit) { return repeatedDigit(digit, from, to); });
    if (!there || (!all.columns.empty() && (!(there->tokens == all.tokens) || there->count != all.count)))
      return std::nullopt;
    all.tokens = there->tokens;
    all.count = there->count;
    all.columns.append(there->columns);
  }
  int64_t stride = 1;
  for (int64_t size : to.drop_front(concat.getAxis() + 1))
    stride *= size;
  if (all.columns.size() > 1)
    all.choice = Digit{stride, int64_t(all.columns.size())};
  return all;
}

std::optional<ExpertZeros> ExpertZeroAnalysis::zerosOf(Operation &op) {
  if (std::optional<ExpertZeros> found = ofComparison(op))
    return found;
  if (isa<graph::EmbeddingGradOp>(op))
    return ofPlaced(op);
  const bool isKnown = llvm::any_of(op.getOperands(), [&](Value operand) { return of(operand); });
  if (!isKnown)
    return std::nullopt;
  if (isa<graph::MatmulOp>(op))
    return ofProduct(op);
  if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op))
    return ofSum(op);
  if (isa<graph::ConcatOp, graph::PadOp>(op))
    return ofParts(op);
  if (isa<graph::SoftmaxOp>(op)) {
    ExpertZeros shares = *of(op.getOperand(0));
    const bool isOverExperts = shares.experts == Digit{1, tensorOf(op.getResult(0)).getShape().back()};
    if (!isOverExperts || shares.choice || shares.outside > kHidden)
      return std::nullopt;
    shares.outside = 0;
    shares.inside.reset();
    shares.weights.clear();
    return shares;
  }
  if (isByElement(&op))
    return ofElements(op);
  const ExpertZeros *operand = of(op.getOperand(0));
  return operand && op.getNumOperands() == 1 ? arranged(op, *operand) : std::nullopt;
}

/// Whether the number of a choice is that of an expert.
std::optional<ExpertZeros> ExpertZeroAnalysis::ofComparison(Operation &op) {
  auto compare = dyn_cast<graph::CompareOp>(op);
  const bool isEqual = compare && compare.getPredicate() == graph::Comparison::Equal;
  if (!isEqual && (!compare || compare.getPredicate() != graph::Comparison::NotEqual))
    return std::nullopt;
  for (unsigned side : {0u, 1u}) {
    auto found = numbers.find(op.getOperand(side));
    if (found == numbers.end())
      continue;
    const Numbers &choice = found->second;
    const Value other = op.getOperand(1 - side);
    ExpertZeros is;
    is.tokens = choice.tokens;
    is.choice = choice.choice;
    is.choices = choice.columns;
    is.count = choice.count;
    is.outside = isEqual ? 0 : 1;
    is.inside = isEqual ? 1 : 0;
    if (Numeral number = splatOf(other)) {
      is.expert = int64_t(*number);
      if (double(is.expert) != *number || is.expert < 0 || is.expert >= is.count)
        return std::nullopt;
      return is;
    }
    is.experts = countedDigit(other);
    if (!is.experts || is.experts->size < is.count || overlap(*is.experts, is.tokens) ||
        (is.choice && overlap(*is.experts, *is.choice)))
      return std::nullopt;
    is.count = is.experts->size;
    return is;
  }
  return std::nullopt;
}

/// What is added at computed places of zeros.
std::optional<ExpertZeros> ExpertZeroAnalysis::ofPlaced(Operation &op) {
  auto grad = cast<graph::EmbeddingGradOp>(op);
  const RankedTensorType type = tensorOf(grad.getDtable());
  if (type.getDimSize(1) != 1)
    return std::nullopt;
  std::optional<RowIndices> rows = rowIndices(grad.getIndices(), type.getDimSize(0));
  if (!rows || tensorOf(grad.getDy()).getNumElements() != rows->tokens * rows->perToken)
    return std::nullopt;
  ExpertZeros placed;
  placed.tokens = {rows->count, rows->tokens};
  placed.experts = Digit{1, rows->count};
  placed.count = rows->count;
  const int64_t perToken = rows->perToken;
  if (auto known = numbers.find(rows->numbers); known != numbers.end()) {
    const Numbers &numbers = known->second;
    const std::optional<Digit> each = perToken == 1 ? std::nullopt : std::optional(Digit{1, perToken});
    if (!(numbers.tokens == Digit{perToken, rows->tokens}) || numbers.choice != each || numbers.count > rows->count)
      return std::nullopt;
    placed.choices = numbers.columns;
  }
  for (int64_t choice = 0; choice < perToken; ++choice) {
    if (int64_t(placed.choices.size()) < perToken)
      placed.choices.push_back({rows->numbers, choice, perToken});
    placed.weights.push_back({grad.getDy(), choice, perToken});
  }
  if (Numeral each = splatOf(grad.getDy()); each && areDistinct(placed.choices))
    placed.inside = each;
  return placed;
}

/// A number for each token and choice, as a value of the frame reads it.
TokenColumns ExpertZeroAnalysis::weightsOf(Value value, const ExpertZeros &frame) const {
  if (const ExpertZeros *known = of(value); known && known->hasFrameOf(frame) && known->choices == frame.choices)
    return known->weights;
  const int64_t tokens = frame.tokens.size, perToken = int64_t(frame.choices.size());
  if (perToken > 1 && !frame.choice)
    return {};
  Digit token{perToken, tokens}, choice{1, perToken};
  SmallVector<graph::BroadcastOp> repeats;
  value = withoutReshapes(value);
  while (auto repeat = value.getDefiningOp<graph::BroadcastOp>()) {
    repeats.push_back(repeat);
    value = withoutReshapes(repeat.getX());
  }
  if (tensorOf(value).getNumElements() != tokens * perToken)
    return {};
  for (graph::BroadcastOp repeat : llvm::reverse(repeats))
    for (Digit *digit : {&token, &choice}) {
      std::optional<Digit> there =
          repeatedDigit(*digit, tensorOf(repeat.getX()).getShape(), tensorOf(repeat).getShape());
      if (!there)
        return {};
      *digit = *there;
    }
  if (!(token == frame.tokens) || (perToken > 1 && !(choice == *frame.choice)))
    return {};
  TokenColumns columns;
  for (int64_t column = 0; column < perToken; ++column)
    columns.push_back({value, column, perToken});
  return columns;
}

/// What the result of an op by element is where experts are chosen, as far as `from`, one of its operands, says where
/// that is.
void ExpertZeroAnalysis::findInside(Operation &op, const ExpertZeros &from, ExpertZeros &result) const {
  auto isSame = [&](Value value) {
    const ExpertZeros *known = of(value);
    return known && known->hasFrameOf(from) && known->choices == from.choices ? known : nullptr;
  };
  SmallVector<Numeral> inside;
  for (Value operand : op.getOperands()) {
    const ExpertZeros *known = isSame(operand);
    inside.push_back(known ? known->inside : splatOf(operand));
  }
  result.inside = foldElement(&op, inside);
  result.weights.clear();
  if (result.inside)
    return;
  if (isa<graph::SelectOp>(op) && inside[0])
    result.weights = weightsOf(op.getOperand(*inside[0] != 0 ? 1 : 2), from);
  if (isa<graph::CastOp>(op) && isa<FloatType>(tensorOf(op.getResult(0)).getElementType()))
    result.weights = from.weights;
  if (!isa<graph::MulOp, graph::AddOp>(op))
    return;
  for (unsigned side : {0u, 1u})
    if (inside[side] == (isa<graph::MulOp>(op) ? 1.0 : 0.0) && (isa<graph::MulOp>(op) || splatOf(op.getOperand(side))))
      result.weights = weightsOf(op.getOperand(1 - side), from);
}

std::optional<ExpertZeros> ExpertZeroAnalysis::ofElements(Operation &op) {
  std::optional<ExpertZeros> best;
  SmallVector<Numeral> all;
  const ExpertZeros *frame = nullptr;
  bool haveOneFrame = true;
  TokenColumns choices;
  for (Value operand : op.getOperands()) {
    const ExpertZeros *one = of(operand);
    all.push_back(one ? std::optional(one->outside) : splatOf(operand));
    if (!one)
      continue;
    haveOneFrame &= !frame || one->hasFrameOf(*frame);
    frame = one;
    for (const TokenColumn &choice : one->choices)
      if (!llvm::is_contained(choices, choice))
        choices.push_back(choice);
    // What this operand alone decides.
    SmallVector<Numeral> known;
    for (Value other : op.getOperands())
      known.push_back(other == operand ? std::optional(one->outside) : splatOf(other));
    const Numeral outside = foldElement(&op, known);
    if (!outside || (best && best->choices.size() <= one->choices.size()))
      continue;
    best = *one;
    best->outside = *outside;
    findInside(op, *one, *best);
  }
  if (best)
    return best;
  const Numeral outside = haveOneFrame ? foldElement(&op, all) : std::nullopt;
  // Element k of several is about choice k.
  if (!outside || (frame->choice && choices.size() != frame->choices.size()))
    return std::nullopt;
  ExpertZeros joined = *frame;
  joined.outside = *outside;
  joined.choices = std::move(choices);
  joined.inside.reset();
  joined.weights.clear();
  if (!isa<graph::AddOp>(op) || *outside != 0)
    return joined;
  // Where both add what is their own.
  const ExpertZeros *a = of(op.getOperand(0)), *b = of(op.getOperand(1));
  if (a->weights.empty() || b->weights.empty() || a->choices.size() + b->choices.size() != joined.choices.size())
    return joined;
  joined.weights = a->weights;
  joined.weights.append(b->weights);
  return joined;
}

/// Sums and maxima over dimensions that are not those of tokens or experts.
std::optional<ExpertZeros> ExpertZeroAnalysis::ofSum(Operation &op) {
  const bool isSum = isa<graph::ReduceSumOp>(op);
  ArrayRef<int64_t> axes = isSum ? cast<graph::ReduceSumOp>(op).getAxes() : cast<graph::ReduceMaxOp>(op).getAxes();
  ArrayRef<int64_t> from = tensorOf(op.getOperand(0)).getShape(), to = tensorOf(op.getResult(0)).getShape();
  ExpertZeros sum = *of(op.getOperand(0));
  if (isSum && sum.outside != 0)
    return std::nullopt;
  const bool hasInside = sum.inside && (isSum ? areDistinct(sum.choices) : *sum.inside > sum.outside);
  for (int64_t axis : axes) {
    if (from[axis] == 1)
      continue;
    if (sum.choice && isDimension(*sum.choice, from, axis)) {
      sum.choice.reset();
      if (!isSum)
        sum.weights.clear();
      if (!hasInside)
        sum.inside.reset();
    } else {
      sum.weights.clear();
      if (isSum)
        sum.inside.reset();
    }
  }
  return moved(std::move(sum), [&](Digit digit) { return repeatedDigit(digit, from, to); });
}

std::optional<ExpertZeros> ExpertZeroAnalysis::ofProduct(Operation &op) {
  auto product = cast<graph::MatmulOp>(op);
  const RankedTensorType type = tensorOf(product);
  const int64_t rank = type.getRank();
  for (bool isLeft : {true, false}) {
    const ExpertZeros *known = of(isLeft ? product.getA() : product.getB());
    if (!known || known->outside != 0)
      continue;
    const Value other = isLeft ? product.getB() : product.getA();
    ArrayRef<int64_t> from = tensorOf(isLeft ? product.getA() : product.getB()).getShape();
    // The dimension that the result has, and the one that is added up.
    const bool isTransposed = isLeft ? product.getTransposeA() : product.getTransposeB();
    const int64_t kept = isLeft == isTransposed ? rank - 1 : rank - 2,
                  added = isLeft == isTransposed ? rank - 2 : rank - 1;
    SmallVector<int64_t> placeOf;
    for (int64_t dimension = 0; dimension < rank; ++dimension)
      placeOf.push_back(dimension);
    placeOf[kept] = isLeft ? rank - 2 : rank - 1;
    placeOf[added] = isLeft ? rank - 1 : rank - 2;
    ExpertZeros result = *known;
    result.inside.reset();
    result.weights.clear();
    if (result.choice && isDimension(*result.choice, from, added)) {
      // The sum over choices of what one of them is: shares of experts, where the others are a number each.
      const int64_t numbers = known->tokens.size * int64_t(known->choices.size());
      const bool isInOrder =
          tensorOf(other).getNumElements() == numbers && known->tokens.stride == from[added] * from[kept];
      if (known->inside == 1.0 && isInOrder)
        for (int64_t column = 0; column < int64_t(known->choices.size()); ++column)
          result.weights.push_back({withoutReshapes(other), column, int64_t(known->choices.size())});
      result.choice.reset();
    }
    auto isAdded = [&](const std::optional<Digit> &digit) { return digit && touches(*digit, from, added); };
    if (isAdded(result.tokens) || isAdded(result.experts) || isAdded(result.choice))
      continue;
    auto move = [&](Digit digit) { return movedDigit(digit, from, type.getShape(), placeOf); };
    if (std::optional<ExpertZeros> there = moved(std::move(result), move))
      return there;
  }
  return std::nullopt;
}

/// Values beside each other, or with zeros around them, that are all of the same tokens and experts.
std::optional<ExpertZeros> ExpertZeroAnalysis::ofParts(Operation &op) {
  std::optional<ExpertZeros> joined;
  ArrayRef<int64_t> to = tensorOf(op.getResult(0)).getShape();
  for (Value operand : op.getOperands()) {
    const ExpertZeros *one = of(operand);
    if (!one || (isa<graph::PadOp>(op) && one->outside != 0))
      return std::nullopt;
    ArrayRef<int64_t> from = tensorOf(operand).getShape();
    std::optional<ExpertZeros> there = moved(*one, [&](Digit digit) { return repeatedDigit(digit, from, to); });
    if (!there || (joined && (!there->hasFrameOf(*joined) || there->outside != joined->outside ||
                              there->choices != joined->choices)))
      return std::nullopt;
    joined = std::move(there);
    joined->inside.reset();
    joined->weights.clear();
  }
  return joined;
}

} // namespace ztc
