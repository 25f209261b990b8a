#include "passes/Autodiff/UnstackExperts.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Mixture.h"

using namespace mlir;

namespace ztc {
namespace {

using graph::tensorOf;

/// The dimension that holds a digit as its leading part, or whole; nothing where none does.
std::optional<int64_t> dimensionOf(const Digit &digit, ArrayRef<int64_t> shape) {
  int64_t stride = 1;
  for (int64_t dimension = int64_t(shape.size()) - 1; dimension >= 0; stride *= shape[dimension--])
    if (digit.stride >= stride && digit.stride % stride == 0 && digit.stride * digit.size == stride * shape[dimension])
      return dimension;
  return std::nullopt;
}

/// One expert's part of a computation on all experts.
class ExpertPart {
public:
  ExpertPart(OpBuilder &builder, const ExpertZeroAnalysis &analysis, int64_t expert)
      : builder(builder), analysis(analysis), expert(expert) {}

  /// The elements of `value` whose digit is the expert's number, in the shape of `value` without those of others; null
  /// where they cannot be taken out of it.
  Value of(Value value, Digit digit) {
    auto [known, isNew] = parts.try_emplace(value);
    if (!isNew)
      return known->second;
    Value part = make(value, digit);
    return parts[value] = part;
  }

private:
  SmallVector<int64_t> shapeOf(Value value, Digit digit) const {
    SmallVector<int64_t> shape(tensorOf(value).getShape());
    if (std::optional<int64_t> dimension = dimensionOf(digit, shape))
      shape[*dimension] /= digit.size;
    return shape;
  }

  Value sliceOf(Value value, Digit digit) {
    const SmallVector<int64_t> shape = shapeOf(value, digit);
    const std::optional<int64_t> dimension = dimensionOf(digit, tensorOf(value).getShape());
    SmallVector<int64_t> offsets(shape.size(), 0);
    if (!dimension)
      return {};
    offsets[*dimension] = expert * shape[*dimension];
    return graph::SliceOp::create(builder, value.getLoc(), tensorOf(value).clone(shape), value, offsets);
  }

  Value make(Value value, Digit digit) {
    ArrayRef<int64_t> to = tensorOf(value).getShape();
    if (!dimensionOf(digit, to))
      return {};
    const SmallVector<int64_t> shape = shapeOf(value, digit);
    Operation *op = value.getDefiningOp();
    const ExpertZeros *zeros = analysis.of(value);
    // Shares, and parameters.
    const bool isShares = zeros && zeros->experts == digit && !zeros->choice &&
                          tensorOf(value).getNumElements() == zeros->tokens.size * zeros->count;
    if (!op || isShares)
      return sliceOf(value, digit);
    if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
      auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
      const RankedTensorType type = tensorOf(value).clone(shape);
      return elements ? graph::ConstantOp::create(builder, op->getLoc(), type, elements.resizeSplat(type))
                      : sliceOf(value, digit);
    }
    if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
      Value part = of(reshape.getX(), digit);
      return part ? reshapeTo(builder, op->getLoc(), part, shape) : Value();
    }
    if (auto transpose = dyn_cast<graph::TransposeOp>(op))
      return ofTransposed(transpose, digit, shape);
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
      return ofRepeated(broadcast, digit, shape);
    if (auto product = dyn_cast<graph::MatmulOp>(op))
      return ofProduct(product, digit, shape);
    if (auto concat = dyn_cast<graph::ConcatOp>(op); concat && int64_t(concat.getAxis()) == dimensionOf(digit, to) &&
                                                     concat.getInputs().size() == size_t(digit.size))
      return tensorOf(concat.getInputs()[expert]).getShape() == ArrayRef(shape) ? concat.getInputs()[expert] : Value();
    const bool isAcrossExperts = isa<graph::SoftmaxOp>(op) && *dimensionOf(digit, to) == int64_t(to.size()) - 1;
    if (!isByElement(op) || isAcrossExperts)
      return sliceOf(value, digit);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(of(operand, digit));
      if (!operands.back())
        return {};
    }
    OperationState state(op->getLoc(), op->getName(), operands, tensorOf(value).clone(shape), op->getAttrs());
    return builder.create(state)->getResult(0);
  }

  Value ofTransposed(graph::TransposeOp transpose, Digit digit, ArrayRef<int64_t> shape) {
    ArrayRef<int64_t> order = transpose.getPermutation();
    const std::optional<Digit> before =
        movedDigit(digit, tensorOf(transpose).getShape(), tensorOf(transpose.getX()).getShape(), order);
    Value part = before ? of(transpose.getX(), *before) : Value();
    if (!part)
      return {};
    // Dimensions of one element may be anywhere.
    SmallVector<int64_t> moved;
    for (int64_t dimension : order)
      if (tensorOf(part).getDimSize(dimension) != 1)
        moved.push_back(dimension);
    if (llvm::is_sorted(moved))
      return reshapeTo(builder, transpose.getLoc(), part, shape);
    return graph::TransposeOp::create(builder, transpose.getLoc(), tensorOf(transpose).clone(shape), part, order);
  }

  Value ofRepeated(graph::BroadcastOp broadcast, Digit digit, ArrayRef<int64_t> shape) {
    ArrayRef<int64_t> from = tensorOf(broadcast.getX()).getShape(), to = tensorOf(broadcast).getShape();
    const int64_t dimension = *dimensionOf(digit, to) - int64_t(to.size() - from.size());
    Value part = broadcast.getX();
    if (dimension >= 0 && from[dimension] != 1) {
      // Repeated along other dimensions: it has the digit too.
      int64_t stride = 1;
      for (int64_t size : from.drop_front(dimension + 1))
        stride *= size;
      part = of(part, {stride * (from[dimension] / digit.size), digit.size});
    }
    if (!part || tensorOf(part).getShape() == shape)
      return part;
    return graph::BroadcastOp::create(builder, broadcast.getLoc(), tensorOf(part).clone(shape), part);
  }

  /// A product of the expert's matrix, or of its columns of one that all experts' are beside each other in.
  Value ofProduct(graph::MatmulOp product, Digit digit, ArrayRef<int64_t> shape) {
    const int64_t rank = tensorOf(product).getRank(), dimension = *dimensionOf(digit, tensorOf(product).getShape());
    const int64_t row = rank - 2, column = rank - 1;
    auto digitOf = [&](Value factor, int64_t place) {
      ArrayRef<int64_t> sizes = tensorOf(factor).getShape();
      int64_t stride = 1;
      for (int64_t size : sizes.drop_front(place + 1))
        stride *= size;
      return Digit{stride * (sizes[place] / digit.size), digit.size};
    };
    Value a = product.getA(), b = product.getB();
    if (dimension != column)
      a = of(a, digitOf(a, dimension == row && product.getTransposeA() ? column : dimension));
    if (dimension != row)
      b = of(b, digitOf(b, dimension == column && product.getTransposeB() ? row : dimension));
    if (!a || !b)
      return {};
    const RankedTensorType type = tensorOf(product).clone(shape);
    // Numbers times rows.
    const int64_t added = tensorOf(a).getShape()[product.getTransposeA() ? row : column];
    if (added == 1 && !product.getTransposeA() && !product.getTransposeB()) {
      auto repeated = [&](Value factor) -> Value {
        if (tensorOf(factor).getShape() == shape)
          return factor;
        return graph::BroadcastOp::create(builder, product.getLoc(), tensorOf(factor).clone(shape), factor);
      };
      return graph::MulOp::create(builder, product.getLoc(), repeated(a), repeated(b));
    }
    if (llvm::any_of(shape.drop_back(2), [](int64_t size) { return size != 1; }))
      return {};
    auto matrix = [&](Value factor) {
      return reshapeTo(builder, product.getLoc(), factor, tensorOf(factor).getShape().take_back(2));
    };
    Value y = graph::MatmulOp::create(builder, product.getLoc(), tensorOf(product).clone(shape.take_back(2)), matrix(a),
                                      matrix(b), product.getTransposeA(), product.getTransposeB());
    return reshapeTo(builder, product.getLoc(), y, type.getShape());
  }

  OpBuilder &builder;
  const ExpertZeroAnalysis &analysis;
  const int64_t expert;
  llvm::DenseMap<Value, Value> parts;
};

/// A sum over experts: what is added, and what it is multiplied with, if that is a factor of its own; where experts are
/// in them.
struct StackedSum {
  Value values, shares;
  Digit inValues, inShares;
};

Digit digitOfDimension(ArrayRef<int64_t> shape, int64_t dimension) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dimension + 1))
    stride *= size;
  return {stride, shape[dimension]};
}

/// sum over e of rows (..., E, ...) that are 0 where e was not chosen.
std::optional<StackedSum> sumOfRows(graph::ReduceSumOp sum, const ExpertZeroAnalysis &analysis) {
  const ExpertZeros *zeros = analysis.of(sum.getX());
  if (!zeros || !zeros->experts || zeros->outside != 0 || zeros->choice || sum.getAxes().size() != 1 ||
      sum.getType().getElementType() != tensorOf(sum.getX()).getElementType())
    return std::nullopt;
  const Digit digit = digitOfDimension(tensorOf(sum.getX()).getShape(), sum.getAxes().front());
  const bool isOfRows = tensorOf(sum.getX()).getNumElements() > zeros->tokens.size * zeros->count;
  if (!(digit == *zeros->experts) || !isOfRows)
    return std::nullopt;
  return StackedSum{sum.getX(), {}, digit, digit};
}

/// sum over e of rows (T, E, D) times shares (T, E), a product for each token.
std::optional<StackedSum> sumOfShares(graph::MatmulOp product, const ExpertZeroAnalysis &analysis) {
  const int64_t rank = tensorOf(product).getRank();
  for (bool isLeft : {true, false}) {
    Value shares = isLeft ? product.getA() : product.getB(), values = isLeft ? product.getB() : product.getA();
    const ExpertZeros *zeros = analysis.of(shares);
    if (!zeros || !zeros->experts || zeros->outside != 0 || zeros->choice || rank < 3 ||
        tensorOf(shares).getNumElements() != zeros->tokens.size * zeros->count)
      continue;
    auto addedOf = [&](Value factor, bool isTransposed, bool isFirst) {
      return digitOfDimension(tensorOf(factor).getShape(), isTransposed == isFirst ? rank - 2 : rank - 1);
    };
    const Digit inShares = addedOf(shares, isLeft ? product.getTransposeA() : product.getTransposeB(), isLeft);
    const Digit inValues = addedOf(values, isLeft ? product.getTransposeB() : product.getTransposeA(), !isLeft);
    // One number for each token and expert: rows of shares, or columns, have one element.
    if (!(inShares == *zeros->experts) || tensorOf(product).getNumElements() <= zeros->tokens.size)
      continue;
    return StackedSum{values, shares, inValues, inShares};
  }
  return std::nullopt;
}

/// The sum, expert by expert; null where a value cannot be split by experts: ops made until then have no readers.
graph::AddOp writeOut(Operation *op, const StackedSum &stacked, const ExpertZeroAnalysis &analysis) {
  OpBuilder builder(op);
  const Location loc = op->getLoc();
  const RankedTensorType type = tensorOf(op->getResult(0));
  Value sum;
  for (int64_t expert = 0; expert < stacked.inValues.size; ++expert) {
    ExpertPart part(builder, analysis, expert);
    Value term = part.of(stacked.values, stacked.inValues);
    if (term && stacked.shares) {
      const int64_t tokens = tensorOf(stacked.shares).getNumElements() / stacked.inShares.size;
      const int64_t width = type.getNumElements() / tokens;
      Value share = part.of(stacked.shares, stacked.inShares);
      if (!share || tensorOf(term).getNumElements() != tokens * width)
        return {};
      term = reshapeTo(builder, loc, term, {tokens, width});
      share = reshapeTo(builder, loc, share, {tokens, 1});
      Value repeated = graph::BroadcastOp::create(builder, loc, term.getType(), share);
      term = graph::MulOp::create(builder, loc, term, repeated);
    }
    if (!term)
      return {};
    term = reshapeTo(builder, loc, term, type.getShape());
    sum = sum ? Value(graph::AddOp::create(builder, loc, sum, term)) : term;
  }
  return sum.getDefiningOp<graph::AddOp>();
}

} // namespace

SmallVector<UnstackedSum> unstackExperts(func::FuncOp function, ExpertZeroAnalysis &analysis) {
  SmallVector<UnstackedSum> made;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    std::optional<StackedSum> stacked;
    if (auto sum = dyn_cast<graph::ReduceSumOp>(op))
      stacked = sumOfRows(sum, analysis);
    else if (auto product = dyn_cast<graph::MatmulOp>(op))
      stacked = sumOfShares(product, analysis);
    if (!stacked || stacked->inValues.size < 2)
      continue;
    Operation *before = op.getPrevNode();
    graph::AddOp sum = writeOut(&op, *stacked, analysis);
    for (Operation *next = before ? before->getNextNode() : &op.getBlock()->front(); next != &op;
         next = next->getNextNode())
      analysis.learn(*next);
    if (!sum)
      continue;
    op.getResult(0).replaceAllUsesWith(sum);
    made.push_back({&op, sum});
  }
  return made;
}

} // namespace ztc
