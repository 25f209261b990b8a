#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/DenseExperts.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Mixture.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/UnstackExperts.h"
#include "llvm/ADT/StringExtras.h"

#define DEBUG_TYPE "ztc-route-experts"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ROUTEEXPERTS
#include "passes/Autodiff/Passes.h.inc"

namespace {

using graph::tensorOf;

/// The module path that the experts' ops have in common: layers.0.mlp.experts.gate_proj of
/// layers.0.mlp.experts.0.gate_proj and layers.0.mlp.experts.1.gate_proj.
Location withoutNumber(Location first, Location second) {
  const std::string path = scopeOf(first), other = scopeOf(second);
  SmallVector<StringRef> parts, others;
  StringRef(path).split(parts, '.');
  StringRef(other).split(others, '.');
  if (path == other || parts.size() != others.size())
    return first;
  SmallVector<StringRef> common;
  for (auto [part, theirs] : llvm::zip_equal(parts, others))
    if (part == theirs)
      common.push_back(part);
  return NameLoc::get(StringAttr::get(first.getContext(), llvm::join(common, ".")));
}

/// One mixture's experts on rows in their order.
class RowLifter {
public:
  RowLifter(Mixture &mixture, ExpertPeers &peers, const ExpertZeroAnalysis &analysis)
      : mixture(mixture), peers(peers), analysis(analysis), builder(mixture.sum), loc(mixture.sum->getLoc()),
        tokens(mixture.tokens), perToken(int64_t(mixture.choices.size())), rows(tokens * perToken) {}

  /// Puts the sum of the chosen experts' rows in place of the sum over all; false, and nothing changed, where an op
  /// cannot be lifted.
  bool run() {
    const Value term = mixture.terms.front();
    if (!canLift(term))
      return false;
    route();
    lift(peers.firstShare()); // in front of what it may be multiplied with in one kernel
    Value lifted = lift(term);
    const bool isWeighed = !weighFirst(lifted);
    const int64_t width = tensorOf(lifted).getNumElements() / rows;
    lifted = reshapeTo(builder, loc, lifted, {rows, width});
    auto type = RankedTensorType::get({tokens, width}, tensorOf(lifted).getElementType());
    auto combine = graph::CombineOp::create(builder, loc, type, lifted, order, places);
    // Rows that were multiplied with f32 shares are added before they are rounded.
    Operation *share = withoutReshapes(peers.firstShare()).getDefiningOp();
    if (isWeighed && share->hasAttr(graph::kWide))
      combine->setAttr(graph::kWide, builder.getUnitAttr());
    mixture.replaceTerms(reshapeTo(builder, loc, combine, tensorOf(mixture.sum).getShape()));
    return true;
  }

  /// Whether the sum over experts is that over choices: these differ, or two of one expert add up.
  bool areTermsOfChoices() {
    if (analysis.areDistinct(mixture.choices))
      return true;
    const ExpertZeros &zeros = *analysis.of(peers.firstShare());
    return !zeros.weights.empty() && !zeros.inside && isProportional(mixture.terms.front());
  }

  /// What kept `run` from it.
  std::string reason() const {
    return obstacle.empty() ? "what they read is not by token"
                            : "their '" + obstacle.str() + "' is not computed row by row, whatever rows there are";
  }

private:
  /// Whether rows of a value are multiples of their share: twice that of a share twice as large.
  bool isProportional(Value value) const;
  /// How many leading dimensions of a value count the tokens; nothing where none do.
  std::optional<unsigned> leadOf(Value value) const {
    ArrayRef<int64_t> shape = tensorOf(value).getShape();
    if (!shape.empty() && shape[0] == tokens)
      return 1;
    if (shape.size() >= 2 && shape[0] * shape[1] == tokens)
      return 2;
    return std::nullopt;
  }
  /// The value's type with a row for each choice in place of the tokens.
  RankedTensorType liftedType(Value value) const {
    SmallVector<int64_t> shape(tensorOf(value).getShape().drop_front(*leadOf(value)));
    shape.insert(shape.begin(), rows);
    return tensorOf(value).clone(shape);
  }
  bool differs(Value value) const { return !peers.of(value).empty(); }
  /// A vector of weights, another one for each expert, that is repeated for each row.
  Value repeatedVector(Value value) const {
    auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
    if (!broadcast || peers.isComputedFromData(value) || !differs(value))
      return {};
    const RankedTensorType from = tensorOf(broadcast.getX()), to = tensorOf(value);
    return from.getNumElements() == to.getShape().back() ? broadcast.getX() : Value();
  }

  bool canLift(Value value);
  bool canLiftOp(Operation *op);
  Value lift(Value value);
  Value liftOp(Operation *op, RankedTensorType type);
  Value liftProduct(graph::MatmulOp product, RankedTensorType type);
  Value liftNorm(graph::RmsNormOp norm);
  Value vectorsOfRows(Value vector, Location where);
  bool weighFirst(Value &term);
  Value besides(ArrayRef<TokenColumn> columns);
  /// Whether a value is known by the mixture's choices, in whatever order, and no others.
  bool isOfAllChoices(const ExpertZeros &zeros) const {
    return zeros.choices.size() == mixture.choices.size() &&
           llvm::all_of(mixture.choices,
                        [&](const TokenColumn &choice) { return llvm::is_contained(zeros.choices, choice); });
  }
  Value weightsOfRows(ArrayRef<Value> shares);
  Value lookUpShares(ArrayRef<Value> shares);
  void route();
  Value sharesOfRows(Value slice);
  Value dispatch(Value value, Value places);
  Value stacked(Value first, ArrayRef<int64_t> shape);

  Location locationOf(Value value) const {
    Operation *op = value.getDefiningOp();
    ArrayRef<Value> all = peers.of(value);
    return op && all.size() > 1 && all[1].getDefiningOp()
               ? withoutNumber(op->getLoc(), all[1].getDefiningOp()->getLoc())
               : loc;
  }

  Mixture &mixture;
  ExpertPeers &peers;
  const ExpertZeroAnalysis &analysis;
  OpBuilder builder;
  const Location loc;
  const int64_t tokens, perToken, rows;
  Value order, places, starts;
  llvm::DenseMap<Value, bool> liftable;
  StringRef obstacle; ///< the first op that cannot be lifted
  llvm::DenseMap<Value, Value> lifted;
};

bool RowLifter::isProportional(Value value) const {
  if (peers.isShare(value))
    return value == peers.firstShare();
  auto isReached = [&](Value operand) { return isProportional(operand); };
  Operation *op = value.getDefiningOp();
  if (!op || !differs(value))
    return false;
  if (isa<graph::MulOp>(op))
    return llvm::count_if(op->getOperands(), isReached) == 1;
  if (isa<graph::MatmulOp>(op))
    return isReached(op->getOperand(0));
  return isa<graph::AddOp, graph::ReshapeOp, graph::BroadcastOp, graph::SliceOp, graph::CastOp, graph::NegOp>(op) &&
         llvm::all_of(op->getOperands(), isReached);
}

bool RowLifter::canLift(Value value) {
  if (auto known = liftable.find(value); known != liftable.end())
    return known->second;
  auto compute = [&] {
    const Type type = tensorOf(value).getElementType();
    if (!leadOf(value) || !(isa<FloatType>(type) || type.isInteger(1)))
      return false;
    if (peers.isShare(value) || !differs(value) || repeatedVector(value))
      return true;
    Operation *op = value.getDefiningOp();
    const bool isLiftable = peers.isComputedFromData(value) && canLiftOp(op);
    if (!isLiftable && op && obstacle.empty())
      obstacle = op->getName().getStringRef();
    return isLiftable;
  };
  return liftable[value] = compute();
}

bool RowLifter::canLiftOp(Operation *op) {
  auto all = [&](ValueRange values) { return llvm::all_of(values, [&](Value value) { return canLift(value); }); };
  const Value result = op->getResult(0);
  const unsigned lead = *leadOf(result);
  if (isByElement(op) || isa<graph::ReshapeOp>(op))
    return all(op->getOperands());
  if (auto product = dyn_cast<graph::MatmulOp>(op)) {
    const bool hasRows = tensorOf(result).getRank() == 2 && !product.getTransposeA() && lead == 1;
    return hasRows && !peers.isComputedFromData(product.getB()) && canLift(product.getA());
  }
  auto keepsLead = [&](Value operand) { return canLift(operand) && leadOf(operand) == lead; };
  if (auto softmax = dyn_cast<graph::SoftmaxOp>(op)) // over something else than tokens
    return tensorOf(result).getRank() > lead && keepsLead(softmax.getX());
  if (auto norm = dyn_cast<graph::RmsNormOp>(op))
    return keepsLead(norm.getX()) && !peers.isComputedFromData(norm.getWeight()) && tensorOf(result).getRank() > lead;
  if (auto sum = dyn_cast<graph::ReduceSumOp>(op))
    return keepsLead(sum.getX()) && llvm::all_of(sum.getAxes(), [&](int64_t axis) { return axis >= int64_t(lead); });
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return keepsLead(slice.getX());
  if (auto pad = dyn_cast<graph::PadOp>(op))
    return llvm::all_of(pad.getLow().take_front(lead), [](int64_t low) { return low == 0; }) && keepsLead(pad.getX());
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
    return keepsLead(broadcast.getX()) && tensorOf(broadcast.getX()).getRank() == tensorOf(result).getRank();
  if (auto concat = dyn_cast<graph::ConcatOp>(op))
    return int64_t(concat.getAxis()) >= int64_t(lead) && llvm::all_of(concat.getInputs(), keepsLead);
  return false;
}

/// Columns as one matrix, (T, K), of the type of the first one: numbers of experts may be integers or floats.
Value RowLifter::besides(ArrayRef<TokenColumn> columns) {
  auto isWhole = [&](auto one) {
    return one.value() == TokenColumn{columns[0].value, int64_t(one.index()), int64_t(columns.size())};
  };
  if (llvm::all_of(llvm::enumerate(columns), isWhole))
    return reshapeTo(builder, loc, columns[0].value, {tokens, perToken});
  SmallVector<Value> parts;
  for (const TokenColumn &column : columns) {
    Value all = reshapeTo(builder, loc, column.value, {tokens, column.perToken});
    all = graph::castTo(graph::Expr(builder, loc, all), tensorOf(columns[0].value).getElementType()).value();
    const RankedTensorType one = tensorOf(all).clone({tokens, 1});
    parts.push_back(column.perToken == 1
                        ? all
                        : Value(graph::SliceOp::create(builder, loc, one, all, ArrayRef<int64_t>{0, column.column})));
  }
  auto type = tensorOf(parts.front()).clone({tokens, perToken});
  return graph::ConcatOp::create(builder, loc, type, parts, /*axis=*/1);
}

/// The choices in order of experts.
void RowLifter::route() {
  graph::RouteOp route = routeChoices(builder, loc, besides(mixture.choices), mixture.count);
  order = route.getOrder();
  places = route.getPlaces();
  starts = route.getStarts();
}

Value RowLifter::dispatch(Value value, Value of) {
  const RankedTensorType type = tensorOf(value);
  return graph::DispatchOp::create(builder, loc, type.clone({rows, type.getDimSize(1)}), value, order, of);
}

/// What the shares of all experts (T, 1) are where they were chosen, (T, K), if they are known by choice; else null.
Value RowLifter::weightsOfRows(ArrayRef<Value> shares) {
  TokenColumns weights;
  for (auto [expert, share] : llvm::enumerate(shares)) {
    const ExpertZeros &zeros = *analysis.of(share);
    if (zeros.weights.size() != zeros.choices.size() || !isOfAllChoices(zeros))
      return {};
    TokenColumns own;
    for (const TokenColumn &choice : mixture.choices)
      own.push_back(zeros.weights[llvm::find(zeros.choices, choice) - zeros.choices.begin()]);
    if (expert > 0 && own != weights)
      return {};
    weights = std::move(own);
  }
  return besides(weights);
}

/// The shares of each token's chosen experts (T, K), from those of all experts (T, 1) each.
Value RowLifter::lookUpShares(ArrayRef<Value> shares) {
  Value all;
  for (auto [expert, share] : llvm::enumerate(shares)) {
    auto slice = withoutReshapes(share).getDefiningOp<graph::SliceOp>();
    const ExpertZeros *zeros = slice ? analysis.of(slice.getX()) : nullptr;
    const bool isPart = zeros && zeros->experts == Digit{1, mixture.count} &&
                        zeros->tokens == Digit{mixture.count, tokens} && (expert == 0 || slice.getX() == all);
    all = isPart ? slice.getX() : Value();
    if (!all)
      break;
  }
  if (!all) {
    SmallVector<Value> columns;
    for (Value share : shares)
      columns.push_back(reshapeTo(builder, loc, share, {tokens, 1}));
    all = graph::ConcatOp::create(builder, loc, tensorOf(shares.front()).clone({tokens, mixture.count}), columns,
                                  /*axis=*/1);
  }
  const RankedTensorType type = tensorOf(all);
  Value table = reshapeTo(builder, loc, all, {type.getNumElements(), 1});
  const Type i32 = builder.getI32Type();
  graph::Expr choices(builder, loc, besides(mixture.choices));
  auto row = graph::IotaOp::create(builder, loc, RankedTensorType::get({tokens, perToken}, i32), /*dimension=*/0);
  Value indices = (choices.with(row) * double(mixture.count) + graph::castTo(choices, i32)).value();
  return graph::EmbeddingOp::create(builder, loc, type.clone({rows, 1}), table,
                                    reshapeTo(builder, loc, indices, {rows}));
}

/// The chosen experts' shares, a row each.
Value RowLifter::sharesOfRows(Value share) {
  ArrayRef<Value> all = peers.of(share);
  const RankedTensorType type = tensorOf(share).clone({rows, 1});
  auto inside = [&](Value one) {
    const ExpertZeros &zeros = *analysis.of(one);
    return isOfAllChoices(zeros) ? zeros.inside : std::nullopt;
  };
  if (const std::optional<double> same = inside(share);
      same && llvm::all_of(all, [&](Value one) { return inside(one) == same; }))
    return graph::makeConstant(builder, loc, type, *same);
  const DictionaryAttr attributes = withoutReshapes(share).getDefiningOp()->getDiscardableAttrDictionary();
  Value chosen = weightsOfRows(all);
  if (!chosen) {
    chosen = lookUpShares(all);
    chosen.getDefiningOp()->setDiscardableAttrs(attributes);
  }
  chosen = reshapeTo(builder, loc, chosen, {rows, 1});
  Value shares = dispatch(chosen, reshapeTo(builder, loc, places, {rows, 1}));
  shares.getDefiningOp()->setDiscardableAttrs(attributes);
  return shares;
}

/// What `all` are parts of, one after the other along the first dimension; null where they are not.
Value wholeOf(ArrayRef<Value> all) {
  Value whole;
  int64_t next = 0;
  for (Value part : all) {
    auto slice = withoutReshapes(part).getDefiningOp<graph::SliceOp>();
    if (!slice || (whole && slice.getX() != whole) || slice.getOffsets().front() != next ||
        tensorOf(slice).getShape().drop_front() != tensorOf(slice.getX()).getShape().drop_front())
      return {};
    whole = slice.getX();
    next += tensorOf(slice).getDimSize(0);
  }
  return whole && tensorOf(whole).getDimSize(0) == next ? whole : Value();
}

/// The experts' matrices (or vectors) that correspond to `first`, as one tensor of `shape`: the parameter itself where
/// they are its parts, in order.
Value RowLifter::stacked(Value first, ArrayRef<int64_t> shape) {
  ArrayRef<Value> all = peers.of(first);
  if (Value whole = wholeOf(all))
    return reshapeTo(builder, loc, whole, shape);
  const RankedTensorType type = tensorOf(first);
  SmallVector<Value> parts;
  const int64_t columns = shape.back(), rowsOfOne = type.getNumElements() / columns;
  for (Value one : all)
    parts.push_back(reshapeTo(builder, loc, one, {rowsOfOne, columns}));
  auto joined = type.clone({rowsOfOne * shape[0], columns});
  Value stack = graph::ConcatOp::create(builder, locationOf(first), joined, parts, /*axis=*/0);
  return reshapeTo(builder, loc, stack, shape);
}

/// The vector of each row's expert, (T K, width): the product of a column of ones with each expert's vector as a matrix
/// of one row.
Value RowLifter::vectorsOfRows(Value vector, Location where) {
  const int64_t width = tensorOf(vector).getNumElements();
  Value ones = graph::makeConstant(builder, loc, tensorOf(vector).clone({rows, 1}), 1);
  Value matrices = stacked(vector, {mixture.count, 1, width});
  return graph::GroupedMatmulOp::create(builder, where, tensorOf(vector).clone({rows, width}), ones, matrices, starts,
                                        /*transpose_b=*/false);
}

/// A norm whose weight may be another one for each expert.
Value RowLifter::liftNorm(graph::RmsNormOp norm) {
  Value x = lift(norm.getX()), weight = norm.getWeight();
  const Location where = locationOf(norm);
  const double epsilon = norm.getEpsilon().convertToDouble();
  Value common = differs(weight) ? graph::makeConstant(builder, loc, tensorOf(weight), 1) : weight;
  Value unit = graph::RmsNormOp::create(builder, where, x, common, epsilon);
  unit.getDefiningOp()->setDiscardableAttrs(norm->getDiscardableAttrDictionary());
  if (common == weight)
    return unit;
  Value each = vectorsOfRows(weight, where);
  // Rows may be of several heads, each with the same vector.
  SmallVector<int64_t> shape(tensorOf(unit).getRank(), 1);
  shape.front() = rows;
  shape.back() = tensorOf(weight).getDimSize(0);
  each = reshapeTo(builder, loc, each, shape);
  if (each.getType() != unit.getType())
    each = graph::BroadcastOp::create(builder, loc, unit.getType(), each);
  return graph::MulOp::create(builder, where, unit, each);
}

Value RowLifter::lift(Value value) {
  if (Value known = lifted.lookup(value))
    return known;
  auto make = [&]() -> Value {
    const RankedTensorType type = liftedType(value);
    if (peers.isShare(value))
      return reshapeTo(builder, loc, sharesOfRows(value), type.getShape());
    if (Value vector = repeatedVector(value)) {
      Value repeated = vectorsOfRows(vector, locationOf(value));
      return reshapeTo(builder, loc, repeated, type.getShape());
    }
    if (!differs(value)) {
      if (auto constant = value.getDefiningOp<graph::ConstantOp>())
        if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue()); elements && elements.isSplat())
          return graph::ConstantOp::create(builder, loc, type, elements.resizeSplat(type));
      Value flat = reshapeTo(builder, loc, value, {tokens, tensorOf(value).getNumElements() / tokens});
      return reshapeTo(builder, loc, dispatch(flat, places), type.getShape());
    }
    return liftOp(value.getDefiningOp(), type);
  };
  Value made = make();
  lifted[value] = made;
  return made;
}

Value RowLifter::liftProduct(graph::MatmulOp product, RankedTensorType type) {
  Value x = lift(product.getA());
  x = reshapeTo(builder, loc, x, {rows, tensorOf(x).getNumElements() / rows});
  const Location where = locationOf(product);
  if (!differs(product.getB()))
    return graph::MatmulOp::create(builder, where, type, x, product.getB(), false, product.getTransposeB());
  const RankedTensorType one = tensorOf(product.getB());
  Value w = stacked(product.getB(), {mixture.count, one.getDimSize(0), one.getDimSize(1)});
  return graph::GroupedMatmulOp::create(builder, where, type, x, w, starts, product.getTransposeB());
}

Value RowLifter::liftOp(Operation *op, RankedTensorType type) {
  Operation *made = nullptr;
  const Location where = locationOf(op->getResult(0));
  if (auto product = dyn_cast<graph::MatmulOp>(op)) {
    made = liftProduct(product, type).getDefiningOp();
  } else if (auto norm = dyn_cast<graph::RmsNormOp>(op)) {
    return liftNorm(norm);
  } else if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
    return reshapeTo(builder, loc, lift(reshape.getX()), type.getShape());
  } else {
    const int64_t dropped = int64_t(*leadOf(op->getResult(0))) - 1;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(lift(operand));
    OperationState state(where, op->getName(), operands, type);
    made = builder.create(state);
    made->setAttrs(op->getAttrDictionary());
    if (auto slice = dyn_cast<graph::SliceOp>(made))
      slice.setOffsets(SmallVector<int64_t>(slice.getOffsets().drop_front(dropped)));
    if (auto sum = dyn_cast<graph::ReduceSumOp>(made)) {
      SmallVector<int64_t> axes(sum.getAxes());
      for (int64_t &axis : axes)
        axis -= dropped;
      sum.setAxes(axes);
    }
    if (auto pad = dyn_cast<graph::PadOp>(made))
      pad.setLow(SmallVector<int64_t>(pad.getLow().drop_front(dropped)));
    if (auto concat = dyn_cast<graph::ConcatOp>(made))
      concat.setAxis(concat.getAxis() - dropped);
  }
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return made->getResult(0);
}

/// s (h W) is (s h) W: shares multiply what the last product reads, in the kernel that computes it. False where `term`
/// is none such.
bool RowLifter::weighFirst(Value &term) {
  auto weigh = term.getDefiningOp<graph::MulOp>();
  if (!weigh)
    return false;
  for (auto [result, repeated] : {std::pair(weigh.getA(), weigh.getB()), std::pair(weigh.getB(), weigh.getA())}) {
    auto product = withoutReshapes(result).getDefiningOp<graph::GroupedMatmulOp>();
    auto broadcast = repeated.getDefiningOp<graph::BroadcastOp>();
    if (!product || !broadcast || tensorOf(broadcast.getX()).getNumElements() != rows)
      continue;
    Value x = product.getX(), shares = reshapeTo(builder, loc, broadcast.getX(), {rows, 1});
    Value each = graph::BroadcastOp::create(builder, weigh.getLoc(), x.getType(), shares);
    each.getDefiningOp()->setDiscardableAttrs(broadcast->getDiscardableAttrDictionary());
    Value weighed = graph::MulOp::create(builder, weigh.getLoc(), x, each);
    weighed.getDefiningOp()->setDiscardableAttrs(weigh->getDiscardableAttrDictionary());
    term = graph::GroupedMatmulOp::create(builder, product.getLoc(), product.getType(), weighed, product.getW(), starts,
                                          product.getTransposeB());
    return true;
  }
  return false;
}

/// Of mixtures that stay as they are: that is much more work.
void warn(ArrayRef<DenseExperts> dense, StringRef choices) {
  InFlightDiagnostic warning = dense.front().op->emitWarning();
  warning << choices << ", and all of them compute it: " << dense.front().reason;
  if (dense.size() > 1)
    warning << "; so in " << dense.size() - 1 << " more";
}

struct RouteExperts : impl::RouteExpertsBase<RouteExperts> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      routeMixtures(function);
  }

  static void routeMixtures(func::FuncOp function) {
    ExpertZeroAnalysis analysis(function);
    SmallVector<UnstackedSum> unstacked = unstackExperts(function, analysis);
    SmallVector<DenseExperts> dense;
    llvm::SmallPtrSet<Operation *, 4> known;
    std::string choices = "each token chose some experts";
    ExpertPeers peers(function, analysis);
    auto options = remark::RemarkOpts::name("mixture").category(DEBUG_TYPE).function(function.getName());
    for (Mixture &mixture : findMixtures(function, analysis)) {
      const Location where = mixture.sum.getLoc();
      const std::string most = std::to_string(mixture.choices.size()) + " of " + std::to_string(mixture.count);
      auto *whole = llvm::find_if(unstacked, [&](UnstackedSum &one) { return mixture.sums.contains(one.sum); });
      Operation *stacked = whole == unstacked.end() ? nullptr : whole->stacked;
      const std::string reason = route(mixture, peers, analysis);
      if (reason.empty()) {
        if (stacked)
          unstacked.erase(whole);
        remark::passed(where, options) << most << " experts compute each token";
        continue;
      }
      if (dense.empty())
        choices = "each token chose " + most + " experts";
      dense.push_back({stacked ? stacked : mixture.sum, reason});
      known.insert_range(mixture.sums);
      known.insert(stacked);
    }
    for (UnstackedSum &sum : unstacked)
      sum.restore();
    eraseDeadOps(function.getBody().front());
    for (const DenseExperts &other : findDenseExperts(function))
      if (!known.contains(other.op))
        dense.push_back(other);
    for (const DenseExperts &one : dense)
      remark::missed(one.op->getLoc(), options) << "every expert computes every token: " << one.reason;
    // Once: other functions are made of the same graph.
    if (!dense.empty() && (graph::isEntry(function, graph::Entry::Eval) || !function->hasAttr(graph::kEntry)))
      warn(dense, choices);
  }

  /// Lets the chosen experts compute a mixture's tokens; else nothing is changed, and the result says why.
  static std::string route(Mixture &mixture, ExpertPeers &peers, const ExpertZeroAnalysis &analysis) {
    if (mixture.terms.empty())
      return "what an expert adds is not 0 where its share is 0";
    if (!peers.compare(mixture))
      return "they differ in more than weights";
    RowLifter lifter(mixture, peers, analysis);
    if (!lifter.areTermsOfChoices())
      return "a token may choose one expert twice";
    if (!lifter.run())
      return lifter.reason();
    return "";
  }
};
} // namespace
} // namespace ztc
