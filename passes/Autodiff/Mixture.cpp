#include "passes/Autodiff/Mixture.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Matchers.h"
#include "passes/Autodiff/Functions.h"

using namespace mlir;

namespace ztc {
namespace {

using graph::tensorOf;

/// The number that every element of a constant has.
std::optional<double> splatOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (auto type = dyn_cast<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return double(elements.getSplatValue<APInt>().getSExtValue());
}

/// A part of the position p in a row-major tensor: p / stride % size.
struct Digit {
  int64_t stride, size;
  bool operator==(const Digit &other) const { return stride == other.stride && size == other.size; }
};

/// An integer tensor by position: start + the sum of step * digit + the sum of factor * source, a source being read by
/// its own position, which are its digits. Reshaping changes nothing of it.
struct LinearForm {
  struct Source {
    Value value;
    SmallVector<Digit> digits;
    int64_t factor;
  };
  int64_t start = 0;
  SmallVector<std::pair<Digit, int64_t>> steps;
  SmallVector<Source> sources;

  void add(const LinearForm &other, int64_t factor) {
    start += factor * other.start;
    for (auto [digit, step] : other.steps) {
      auto *same = llvm::find_if(steps, [&](const auto &mine) { return mine.first == digit; });
      if (same == steps.end())
        same = &steps.emplace_back(digit, 0);
      same->second += factor * step;
    }
    llvm::erase_if(steps, [](const auto &step) { return step.second == 0; });
    for (const Source &source : other.sources) {
      auto *same = llvm::find_if(
          sources, [&](const Source &mine) { return mine.value == source.value && mine.digits == source.digits; });
      if (same == sources.end())
        sources.push_back({source.value, source.digits, factor * source.factor});
      else
        same->factor += factor * source.factor;
    }
    llvm::erase_if(sources, [](const Source &source) { return source.factor == 0; });
  }
};

SmallVector<Digit> digitsOf(RankedTensorType type) {
  SmallVector<Digit> digits;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(type.getShape())) {
    if (size > 1)
      digits.push_back({stride, size});
    stride *= size;
  }
  return digits;
}

/// Where a digit of `from` lies once it is repeated to `to`; false where it spans dimensions.
bool moveDigit(Digit &digit, RankedTensorType from, RankedTensorType to) {
  int64_t stride = 1, other = 1;
  for (int64_t back = 1; back <= from.getRank(); ++back) {
    const int64_t size = from.getDimSize(from.getRank() - back);
    if (digit.stride >= stride && digit.stride * digit.size <= stride * size && digit.stride % stride == 0) {
      digit.stride = digit.stride / stride * other;
      return true;
    }
    stride *= size;
    other *= to.getDimSize(to.getRank() - back);
  }
  return false;
}

/// Forms that are known: an op may be reached in many ways.
using LinearForms = llvm::DenseMap<Value, std::optional<LinearForm>>;

std::optional<LinearForm> makeLinearForm(Value value, LinearForms &known);

std::optional<LinearForm> linearForm(Value value, LinearForms &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<LinearForm> form = makeLinearForm(value, known);
  known[value] = form;
  return form;
}

std::optional<LinearForm> makeLinearForm(Value value, LinearForms &known) {
  if (std::optional<double> splat = splatOf(value))
    return LinearForm{int64_t(*splat), {}, {}};
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    LinearForm form;
    int64_t stride = 1;
    for (int64_t size : tensorOf(value).getShape().drop_front(iota.getDimension() + 1))
      stride *= size;
    const int64_t size = tensorOf(value).getDimSize(iota.getDimension());
    if (size > 1)
      form.steps.emplace_back(Digit{stride, size}, 1);
    return form;
  }
  if (isa_and_nonnull<graph::ReshapeOp>(op))
    return linearForm(op->getOperand(0), known);
  if (isa_and_nonnull<graph::BroadcastOp>(op)) {
    std::optional<LinearForm> form = linearForm(op->getOperand(0), known);
    const RankedTensorType from = tensorOf(op->getOperand(0)), to = tensorOf(value);
    auto move = [&](Digit &digit) { return moveDigit(digit, from, to); };
    if (!form || !llvm::all_of(form->steps, [&](auto &step) { return move(step.first); }) ||
        !llvm::all_of(form->sources, [&](LinearForm::Source &source) { return llvm::all_of(source.digits, move); }))
      return std::nullopt;
    return form;
  }
  if (isa_and_nonnull<graph::AddOp, graph::SubOp>(op)) {
    std::optional<LinearForm> a = linearForm(op->getOperand(0), known), b = linearForm(op->getOperand(1), known);
    if (!a || !b)
      return std::nullopt;
    a->add(*b, isa<graph::AddOp>(op) ? 1 : -1);
    return a;
  }
  if (isa_and_nonnull<graph::MulOp>(op))
    for (unsigned factor : {0u, 1u})
      if (std::optional<double> splat = splatOf(op->getOperand(factor))) {
        std::optional<LinearForm> other = linearForm(op->getOperand(1 - factor), known);
        LinearForm product;
        if (other)
          product.add(*other, int64_t(*splat));
        return other ? std::optional(product) : std::nullopt;
      }
  return LinearForm{0, {}, {{value, digitsOf(tensorOf(value)), 1}}};
}

/// Of indices into rows of `count` elements, `perToken` for each of `tokens` rows in turn, the elements' numbers in
/// their rows; null where the indices are others.
Value choicesOf(Value indices, int64_t tokens, int64_t perToken, int64_t count) {
  LinearForms known;
  std::optional<LinearForm> form = linearForm(indices, known);
  if (!form || form->start != 0 || form->sources.size() != 1 || form->sources.front().factor != 1 ||
      tensorOf(form->sources.front().value).getNumElements() != tokens * perToken)
    return {};
  // Element p is in row p / perToken, whose elements begin at count times that.
  llvm::sort(form->steps, [](const auto &a, const auto &b) { return a.first.stride < b.first.stride; });
  int64_t next = perToken;
  for (auto [digit, step] : form->steps) {
    if (digit.stride != next || step * perToken != count * digit.stride)
      return {};
    next *= digit.size;
  }
  return next == tokens * perToken ? form->sources.front().value : Value();
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
    std::optional<PlacedShares> one = placedShares(sum.getA());
    std::optional<PlacedShares> other = one ? placedShares(sum.getB()) : std::nullopt;
    if (!other || one->perToken() + other->perToken() > one->count || one->count != other->count ||
        one->count != tensorOf(value).getShape().back())
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
  if (!hits || !placed || splatOf(hits.getDy()) != 1.0 || tensorOf(placed.getDtable()).getDimSize(1) != 1)
    return std::nullopt;
  const RankedTensorType rows = tensorOf(value);
  const int64_t count = rows.getRank() ? rows.getShape().back() : 0,
                all = tensorOf(placed.getIndices()).getNumElements();
  const int64_t tokens = count ? rows.getNumElements() / count : 0;
  if (rows.getRank() < 2 || tokens == 0 || all % tokens != 0)
    return std::nullopt;
  Value choices = choicesOf(placed.getIndices(), tokens, all / tokens, count);
  if (!choices || choicesOf(hits.getIndices(), tokens, all / tokens, count) != choices)
    return std::nullopt;
  return PlacedShares{value, {{placed.getDy(), placed.getIndices(), choices, all / tokens}}, tokens, count};
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

namespace {

using Pairs = llvm::DenseSet<std::pair<Value, Value>>;

/// `equal`: pairs that have been found so, since an op may be reached in many ways.
bool areEquivalent(Value a, Value b, Pairs &equal) {
  if (a == b || equal.contains({a, b}))
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  const bool isEqual = left && right && left->getName() == right->getName() && a.getType() == b.getType() &&
                       left->getAttrDictionary() == right->getAttrDictionary() &&
                       left->getNumOperands() == right->getNumOperands() &&
                       cast<OpResult>(a).getResultNumber() == cast<OpResult>(b).getResultNumber() &&
                       llvm::all_of_zip(left->getOperands(), right->getOperands(),
                                        [&](Value one, Value other) { return areEquivalent(one, other, equal); });
  if (isEqual)
    equal.insert({a, b});
  return isEqual;
}

} // namespace

bool isByElement(Operation *op) {
  if (op->getNumResults() != 1 || isa<graph::DropoutOp, graph::RandomBitsOp>(op) ||
      !(op->hasTrait<OpTrait::Elementwise>() || op->hasTrait<OpTrait::SameOperandsAndResultType>()))
    return false;
  ArrayRef<int64_t> shape = tensorOf(op->getResult(0)).getShape();
  return llvm::all_of(op->getOperands(), [&](Value operand) { return tensorOf(operand).getShape() == shape; });
}

graph::RouteOp routeChoices(OpBuilder &builder, Location loc, Value choices, int64_t experts) {
  const Type i32 = builder.getI32Type();
  choices = graph::castTo(graph::Expr(builder, loc, choices), i32).value();
  return graph::RouteOp::create(builder, loc, RankedTensorType::get({tensorOf(choices).getNumElements()}, i32),
                                choices.getType(), RankedTensorType::get({experts + 1}, i32), choices);
}

bool areEquivalent(Value a, Value b) {
  Pairs equal;
  return areEquivalent(a, b, equal);
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
  return align(mixture.terms) && share && isZeroWithShare(mixture.terms.front());
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
