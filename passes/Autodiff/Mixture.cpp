#include "passes/Autodiff/Mixture.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "passes/Autodiff/Functions.h"

using namespace mlir;

namespace ztc {

using graph::tensorOf;

namespace {

/// What a sum adds, in order, without sums that have no other reader; `sums`: it and those.
void addends(graph::AddOp sum, SmallVectorImpl<Value> &values, SmallPtrSetImpl<Operation *> &sums) {
  sums.insert(sum);
  for (Value operand : sum->getOperands()) {
    auto inner = operand.getDefiningOp<graph::AddOp>();
    if (inner && operand.hasOneUse())
      addends(inner, values, sums);
    else
      values.push_back(operand);
  }
}

/// Whether another sum adds this one, and nothing else reads it.
bool isPartOfSum(graph::AddOp sum) {
  return sum->hasOneUse() && isa<graph::AddOp>(*sum->user_begin());
}

/// Whether a value has a row for each token that is 0 where one expert was not chosen.
bool isTerm(Value value, const ExpertZeros *zeros) {
  return zeros && !zeros->experts && !zeros->choice && zeros->outside == 0 &&
         zeros->tokens == Digit{tensorOf(value).getNumElements() / zeros->tokens.size, zeros->tokens.size};
}

/// The mixtures among what a sum adds: one for each set of terms of all experts.
void mixturesOf(graph::AddOp sum, const ExpertZeroAnalysis &analysis, SmallVectorImpl<Mixture> &mixtures) {
  SmallVector<Value> values;
  SmallPtrSet<Operation *, 8> sums;
  addends(sum, values, sums);
  SmallVector<SmallVector<Value>> ofExpert;
  for (Value value : values)
    if (const ExpertZeros *zeros = analysis.of(value); isTerm(value, zeros)) {
      ofExpert.resize(std::max<size_t>(ofExpert.size(), size_t(zeros->count)));
      ofExpert[zeros->expert].push_back(value);
    }
  const size_t perExpert = ofExpert.size() > 1 ? ofExpert.front().size() : 0;
  if (!llvm::all_of(ofExpert, [&](const auto &terms) { return terms.size() == perExpert; }))
    return;
  for (size_t place = 0; place < perExpert; ++place) {
    Mixture mixture;
    const ExpertZeros &first = *analysis.of(ofExpert[0][place]);
    mixture.tokens = first.tokens.size;
    mixture.count = first.count;
    mixture.choices = first.choices;
    for (const SmallVector<Value> &terms : ofExpert) {
      const ExpertZeros &zeros = *analysis.of(terms[place]);
      if (zeros.count != first.count || zeros.tokens.size != first.tokens.size || zeros.choices != first.choices)
        return;
      mixture.terms.push_back(terms[place]);
    }
    // With all experts chosen there is nothing to leave out.
    if (int64_t(mixture.choices.size()) > mixture.count)
      return;
    for (Value term : mixture.terms) {
      auto adds = [&](Operation *user) { return sums.contains(user); };
      auto users = llvm::make_filter_range(term.getUsers(), adds);
      if (!llvm::hasSingleElement(users))
        return;
      auto user = cast<graph::AddOp>(*users.begin());
      if (!mixture.sum || mixture.sum->isBeforeInBlock(user))
        mixture.sum = user;
    }
    mixture.sums = sums;
    mixtures.push_back(std::move(mixture));
  }
}

} // namespace

void Mixture::replaceTerms(Value value) {
  auto sumOf = [&](Value term) {
    for (Operation *user : term.getUsers())
      if (sums.contains(user))
        return cast<graph::AddOp>(user);
    llvm_unreachable("a sum adds each term");
  };
  auto last = llvm::find_if(terms, [&](Value term) { return sumOf(term) == sum; });
  sum->replaceUsesOfWith(*last, value);
  auto without = [&](graph::AddOp add, Value term) {
    add.replaceAllUsesWith(add.getA() == term ? add.getB() : add.getA());
    sums.erase(add);
    add.erase();
  };
  for (Value term : terms)
    if (term != *last)
      without(sumOf(term), term);
  // Sums that began with zeros.
  for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
    if (auto add = dyn_cast<graph::AddOp>(user); add && sums.contains(add))
      for (Value operand : add->getOperands())
        if (operand != value && splatOf(operand) == 0.0) {
          without(add, operand);
          break;
        }
}

namespace {

/// A sum of values that are computed of the experts' shares, each of another's, though nothing says that they are 0
/// where these are.
std::optional<Mixture> unprovenMixture(graph::AddOp sum, const llvm::DenseMap<Value, const ExpertZeros *> &ofShare) {
  SmallVector<Value> values;
  Mixture mixture;
  addends(sum, values, mixture.sums);
  llvm::DenseSet<int64_t> experts;
  for (Value value : values)
    if (const ExpertZeros *share = ofShare.lookup(value)) {
      experts.insert(share->expert);
      mixture.count = share->count;
      mixture.choices = share->choices;
    }
  mixture.sum = sum;
  return mixture.count > 1 && int64_t(experts.size()) == mixture.count ? std::optional(std::move(mixture))
                                                                       : std::nullopt;
}

/// Of each value that is computed of one expert's shares, and of no other's: such a share.
llvm::DenseMap<Value, const ExpertZeros *> sharesOfValues(Block &block, const ExpertZeroAnalysis &analysis) {
  llvm::DenseMap<Value, const ExpertZeros *> ofShare;
  for (Operation &op : block) {
    const ExpertZeros *of = nullptr;
    bool isOfOne = op.getNumResults() == 1;
    for (Value operand : op.getOperands())
      if (const ExpertZeros *share = ofShare.lookup(operand)) {
        isOfOne &= !of || of->expert == share->expert;
        of = share;
      }
    if (op.getNumResults() == 1)
      if (const ExpertZeros *zeros = analysis.of(op.getResult(0)); zeros && !zeros->experts && !zeros->choice)
        of = zeros;
    if (of && isOfOne)
      ofShare[op.getResult(0)] = of;
  }
  return ofShare;
}

} // namespace

SmallVector<Mixture> findMixtures(func::FuncOp function, const ExpertZeroAnalysis &analysis) {
  SmallVector<Mixture> mixtures;
  Block &block = function.getBody().front();
  const llvm::DenseMap<Value, const ExpertZeros *> ofShare = sharesOfValues(block, analysis);
  for (auto sum : block.getOps<graph::AddOp>()) {
    if (isPartOfSum(sum))
      continue;
    const size_t known = mixtures.size();
    mixturesOf(sum, analysis, mixtures);
    if (mixtures.size() == known)
      if (std::optional<Mixture> unproven = unprovenMixture(sum, ofShare))
        mixtures.push_back(std::move(*unproven));
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
      !(op->hasTrait<OpTrait::Elementwise>() || isa<graph::SwigluOp, graph::SwigluGradOp>(op)))
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

ExpertPeers::ExpertPeers(func::FuncOp function, const ExpertZeroAnalysis &analysis) : analysis(analysis) {
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
  const ExpertZeros *zeros = analysis.of(value);
  return zeros && !zeros->experts && !zeros->choice && tensorOf(value).getNumElements() == tokens &&
         !hasOwnProducts(value);
}

/// Whether it is computed by products that expert 1 does not have.
bool ExpertPeers::hasOwnProducts(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || common.contains(value))
    return false;
  return isa<graph::MatmulOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) { return hasOwnProducts(operand); });
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
    share = share ? share : first;
    peers[first].assign(values.begin(), values.end());
    return llvm::all_of(llvm::enumerate(values), [&](auto one) {
      const ExpertZeros *zeros = analysis.of(one.value());
      return zeros && !zeros->experts && zeros->expert == int64_t(one.index());
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
  tokens = mixture.tokens;
  share = {};
  peers.clear();
  common.clear();
  SmallVector<Value> pending{mixture.terms[1]};
  while (!pending.empty()) {
    const Value value = pending.pop_back_val();
    if (common.insert(value).second && value.getDefiningOp())
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  return align(mixture.terms) && share;
}

} // namespace ztc
