#include "passes/Autodiff/Mixture.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ztc {
namespace {

using graph::tensorOf;

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The number that every element of a constant has.
std::optional<double> splatOf(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(withoutReshapes(value), m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (auto type = dyn_cast<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return double(elements.getSplatValue<APInt>().getSExtValue());
}

/// An integer tensor that is an affine function of the position: the value at 0, and what a step along each dimension
/// adds.
struct Affine {
  int64_t start = 0;
  SmallVector<int64_t> steps;
};

std::optional<Affine> affineOf(Value value) {
  const int64_t rank = tensorOf(value).getRank();
  if (std::optional<double> splat = splatOf(value))
    return Affine{int64_t(*splat), SmallVector<int64_t>(rank, 0)};
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    Affine affine{0, SmallVector<int64_t>(rank, 0)};
    affine.steps[iota.getDimension()] = 1;
    return affine;
  }
  if (!isa_and_nonnull<graph::AddOp, graph::MulOp>(op))
    return std::nullopt;
  std::optional<Affine> a = affineOf(op->getOperand(0)), b = affineOf(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  if (isa<graph::AddOp>(op)) {
    a->start += b->start;
    for (auto [step, more] : llvm::zip_equal(a->steps, b->steps))
      step += more;
    return a;
  }
  if (llvm::any_of(b->steps, [](int64_t step) { return step != 0; }))
    std::swap(a, b);
  if (llvm::any_of(b->steps, [](int64_t step) { return step != 0; }))
    return std::nullopt;
  a->start *= b->start;
  for (int64_t &step : a->steps)
    step *= b->start;
  return a;
}

/// Whether element (i, ..., k) of an integer tensor, of row r of its last dimension, is r * `count`.
bool isStartOfRow(Value value, int64_t count) {
  std::optional<Affine> affine = affineOf(value);
  if (!affine || affine->start != 0 || affine->steps.back() != 0)
    return false;
  ArrayRef<int64_t> shape = tensorOf(value).getShape();
  int64_t step = count;
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i) {
    if (shape[i] > 1 && affine->steps[i] != step)
      return false;
    step *= shape[i];
  }
  return true;
}

/// The op, and no other one, in front of reshapes.
template <typename Op> Op definedBy(Value value) {
  return withoutReshapes(value).getDefiningOp<Op>();
}

} // namespace

int64_t PlacedShares::perToken() const {
  int64_t sum = 0;
  for (const ChosenShares &one : chosen)
    sum += one.perToken;
  return sum;
}

std::optional<PlacedShares> placedShares(Value value) {
  if (auto sum = definedBy<graph::AddOp>(value)) {
    std::optional<PlacedShares> one = placedShares(sum.getA()), other = placedShares(sum.getB());
    if (!one || !other || one->count != other->count || one->count != tensorOf(value).getShape().back())
      return std::nullopt;
    one->all = value;
    one->chosen.append(other->chosen);
    return one;
  }
  auto select = definedBy<graph::SelectOp>(value);
  auto compare = select ? definedBy<graph::CompareOp>(select.getCondition()) : graph::CompareOp();
  if (!compare || compare.getPredicate() != graph::Comparison::Greater || splatOf(compare.getB()) != 0.0 ||
      splatOf(select.getB()) != 0.0)
    return std::nullopt;
  auto hits = definedBy<graph::EmbeddingGradOp>(compare.getA()),
       placed = definedBy<graph::EmbeddingGradOp>(select.getA());
  if (!hits || !placed || hits.getIndices() != placed.getIndices() || splatOf(hits.getDy()) != 1.0 ||
      tensorOf(placed.getDtable()).getDimSize(1) != 1)
    return std::nullopt;
  auto sum = definedBy<graph::AddOp>(placed.getIndices());
  const RankedTensorType rows = tensorOf(value);
  if (!sum || tensorOf(sum).getRank() < 2 || rows.getRank() < 2)
    return std::nullopt;
  const int64_t count = rows.getShape().back(), tokens = rows.getNumElements() / std::max<int64_t>(count, 1);
  const int64_t perToken = tensorOf(sum).getShape().back();
  if (tokens == 0 || tensorOf(sum).getNumElements() != tokens * perToken)
    return std::nullopt;
  for (auto [start, choices] : {std::pair(sum.getA(), sum.getB()), std::pair(sum.getB(), sum.getA())})
    if (isStartOfRow(start, count)) {
      // The last dimension's stride.
      if (auto scaled = choices.getDefiningOp<graph::MulOp>())
        for (auto [factor, other] : {std::pair(scaled.getA(), scaled.getB()), std::pair(scaled.getB(), scaled.getA())})
          if (splatOf(factor) == 1.0)
            choices = other;
      return PlacedShares{value, {{placed.getDy(), placed.getIndices(), choices, perToken}}, tokens, count};
    }
  return std::nullopt;
}

namespace {

/// The share of each expert, as slices of the last dimension in order; empty unless each is taken once.
SmallVector<graph::SliceOp> sharesOfExperts(Value shares) {
  const RankedTensorType type = tensorOf(shares);
  SmallVector<graph::SliceOp> slices(type.getShape().back());
  for (Operation *user : shares.getUsers()) {
    auto slice = dyn_cast<graph::SliceOp>(user);
    if (!slice || tensorOf(slice).getShape().back() != 1 ||
        tensorOf(slice).getShape().drop_back() != type.getShape().drop_back())
      return {};
    graph::SliceOp &place = slices[slice.getOffsets().back()];
    if (place)
      return {};
    place = slice;
  }
  if (llvm::is_contained(slices, graph::SliceOp()))
    return {};
  return slices;
}

/// Finds the sum of the terms that depend on `slices`, one each.
std::optional<Mixture> sumOfTerms(const PlacedShares &placed, Value shares, ArrayRef<graph::SliceOp> slices) {
  llvm::DenseMap<Value, unsigned> expertOf;          // what depends on one expert's share
  llvm::DenseMap<Value, SmallVector<Value>> termsOf; // sums of terms: by expert, null where one is not in it
  for (auto [expert, slice] : llvm::enumerate(slices))
    expertOf[slice->getResult(0)] = expert;
  auto asTerms = [&](Value value) -> SmallVector<Value> {
    if (auto sum = termsOf.find(value); sum != termsOf.end())
      return sum->second;
    SmallVector<Value> terms(slices.size());
    if (auto one = expertOf.find(value); one != expertOf.end())
      terms[one->second] = value;
    else
      terms.clear();
    return terms;
  };
  for (Operation *op = shares.getDefiningOp()->getNextNode(); op; op = op->getNextNode()) {
    std::optional<unsigned> expert;
    bool meets = false;
    for (Value operand : op->getOperands()) {
      meets |= termsOf.contains(operand);
      if (auto one = expertOf.find(operand); one != expertOf.end()) {
        meets |= expert && *expert != one->second;
        expert = one->second;
      }
    }
    if (!meets) {
      if (expert && op->getNumResults() != 1)
        return std::nullopt;
      if (expert)
        expertOf.try_emplace(op->getResult(0), *expert);
      continue;
    }
    auto sum = dyn_cast<graph::AddOp>(op);
    if (!sum)
      return std::nullopt;
    SmallVector<Value> terms = asTerms(sum.getA()), more = asTerms(sum.getB());
    if (terms.empty() || more.empty())
      return std::nullopt;
    for (auto [term, other] : llvm::zip_equal(terms, more)) {
      if (term && other)
        return std::nullopt;
      term = term ? term : other;
    }
    if (!llvm::is_contained(terms, Value()))
      return Mixture{placed, shares, sum, std::move(terms)};
    termsOf[sum] = std::move(terms);
  }
  return std::nullopt;
}

/// The mixture whose shares are `shares`, or are made of them row by row so that zeros stay zeros.
std::optional<Mixture> mixtureOf(const PlacedShares &placed, Value shares) {
  if (SmallVector<graph::SliceOp> slices = sharesOfExperts(shares); !slices.empty())
    return sumOfTerms(placed, shares, slices);
  // What is made of a sum would be counted once for each of its terms, where they name one expert twice.
  if (placed.chosen.size() > 1)
    return std::nullopt;
  for (Operation *user : shares.getUsers()) {
    const bool keepsZeros =
        isa<graph::MulOp, graph::CastOp>(user) ||
        (isa<graph::ReshapeOp>(user) && tensorOf(user->getResult(0)).getShape().back() == placed.count);
    if (keepsZeros)
      if (std::optional<Mixture> found = mixtureOf(placed, user->getResult(0)))
        return found;
  }
  return std::nullopt;
}

} // namespace

SmallVector<Mixture> findMixtures(func::FuncOp function) {
  SmallVector<Mixture> mixtures;
  for (Operation &op : function.getBody().front()) {
    // Shares are placed as a column, or are the sum of such.
    const bool isPlaced = isa<graph::ReshapeOp>(op) && op.getOperand(0).getDefiningOp<graph::SelectOp>();
    if (!isPlaced && !isa<graph::AddOp>(op))
      continue;
    std::optional<PlacedShares> placed = placedShares(op.getResult(0));
    if (!placed)
      continue;
    if (std::optional<Mixture> mixture = mixtureOf(*placed, placed->all))
      mixtures.push_back(std::move(*mixture));
  }
  return mixtures;
}

ExpertPeers::ExpertPeers(func::FuncOp function) {
  for (unsigned index = 0; index < function.getNumArguments(); ++index)
    if (graph::roleOf(function, index) != graph::Role::Parameter)
      fromData.insert(function.getArgument(index));
  for (Operation &op : function.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return fromData.contains(operand); }))
      fromData.insert_range(op.getResults());
}

ArrayRef<Value> ExpertPeers::of(Value value) const {
  auto found = peers.find(value);
  return found == peers.end() ? ArrayRef<Value>() : ArrayRef<Value>(found->second);
}

bool ExpertPeers::isShare(Value value) const {
  auto slice = value.getDefiningOp<graph::SliceOp>();
  return slice && slice.getX() == shares;
}

bool ExpertPeers::areEquivalent(Value a, Value b) const {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  return left && right && left->getName() == right->getName() && a.getType() == b.getType() &&
         left->getAttrDictionary() == right->getAttrDictionary() && left->getNumOperands() == right->getNumOperands() &&
         cast<OpResult>(a).getResultNumber() == cast<OpResult>(b).getResultNumber() &&
         llvm::all_of_zip(left->getOperands(), right->getOperands(),
                          [&](Value one, Value other) { return areEquivalent(one, other); });
}

/// `values`: of each expert the one that stands at the same place.
bool ExpertPeers::align(ArrayRef<Value> values) {
  const Value first = values.front();
  if (auto known = peers.find(first); known != peers.end())
    return known->second.empty() ? llvm::all_of(values, [&](Value value) { return areEquivalent(first, value); })
                                 : ArrayRef<Value>(known->second) == values;
  if (llvm::all_equal(values)) {
    peers[first] = {};
    return true;
  }
  for (Value value : values)
    if (value.getType() != first.getType() || isComputedFromData(value) != isComputedFromData(first))
      return false;
  if (isShare(first)) {
    share = first;
    peers[first].assign(values.begin(), values.end());
    return llvm::all_of(llvm::enumerate(values), [&](auto one) {
      return isShare(one.value()) &&
             one.value().template getDefiningOp<graph::SliceOp>().getOffsets().back() == int64_t(one.index());
    });
  }
  // A weight, or what is made of weights alone. What adds a vector of weights to rows repeats it for each row.
  const bool isRepeated = llvm::all_of(values, [](Value value) { return value.getDefiningOp<graph::BroadcastOp>(); });
  if (!isComputedFromData(first) && !isRepeated) {
    const bool isSame = llvm::all_of(values, [&](Value value) { return areEquivalent(first, value); });
    peers[first].assign(isSame ? values.end() : values.begin(), values.end());
    return true;
  }
  Operation *op = first.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return false;
  for (Value value : values.drop_front()) {
    Operation *other = value.getDefiningOp();
    if (!other || other->getName() != op->getName() || other->getAttrDictionary() != op->getAttrDictionary() ||
        other->getNumOperands() != op->getNumOperands())
      return false;
  }
  bool isSame = true;
  for (unsigned operand = 0; operand < op->getNumOperands(); ++operand) {
    SmallVector<Value> operands;
    for (Value value : values)
      operands.push_back(value.getDefiningOp()->getOperand(operand));
    if (!align(operands))
      return false;
    isSame &= of(operands.front()).empty();
  }
  peers[first].assign(isSame ? values.end() : values.begin(), values.end());
  return true;
}

bool ExpertPeers::compare(const Mixture &mixture) {
  shares = mixture.shares;
  share = {};
  peers.clear();
  zeros.clear();
  return align(mixture.terms) && isZeroWithShare(mixture.terms.front());
}

bool ExpertPeers::isZeroWithShare(Value value) {
  if (isShare(value) || splatOf(value) == 0.0)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || !isComputedFromData(value))
    return false;
  if (auto known = zeros.find(value); known != zeros.end())
    return known->second;
  auto isZero = [&](Value operand) { return isZeroWithShare(operand); };
  bool result = false;
  if (isa<graph::MulOp, graph::SwigluOp>(op))
    result = llvm::any_of(op->getOperands(), isZero);
  else if (isa<graph::MatmulOp, graph::DivOp>(op))
    result = isZero(op->getOperand(0));
  else if (isa<graph::AddOp, graph::SubOp, graph::ConcatOp, graph::ReshapeOp, graph::BroadcastOp, graph::SliceOp,
               graph::PadOp, graph::CastOp, graph::NegOp, graph::AbsOp, graph::TanhOp, graph::ErfOp, graph::MaximumOp,
               graph::MinimumOp, graph::SinOp, graph::SqrtOp, graph::Expm1Op, graph::ReduceSumOp>(op))
    result = llvm::all_of(op->getOperands(), isZero);
  zeros[value] = result;
  return result;
}

} // namespace ztc
