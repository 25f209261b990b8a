#include "passes/Autodiff/UpdateBody.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "compiler/Support/Formats.h"
#include "passes/Autodiff/Functions.h"
#include "runtime/Core/Random.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StochasticRounding.h"

using namespace mlir;

namespace ztc {
namespace {

Value flatten(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getRank() == 1 ? value : reshapeTo(builder, loc, value, {type.getNumElements()});
}

Value scalarConstant(OpBuilder &builder, Location loc, double value) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto attribute = DenseElementsAttr::get(type, builder.getFloatAttr(builder.getF32Type(), value));
  return graph::ConstantOp::create(builder, loc, type, attribute);
}

Value stepField(OpBuilder &builder, Location loc, Value step, StepParameter field) {
  auto type = RankedTensorType::get({1}, builder.getF32Type());
  Value slice =
      graph::SliceOp::create(builder, loc, type, step, builder.getDenseI64ArrayAttr({static_cast<int64_t>(field)}));
  return reshapeTo(builder, loc, slice, {});
}

ModuleOp moduleOf(OpBuilder &builder) {
  return builder.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
}

/// Whether the gradients that an op sees are those of the scaled loss.
bool isLossScaled(OpBuilder &builder) {
  auto precision = moduleOf(builder)->getAttrOfType<StringAttr>(graph::kPrecision);
  return precision && fromWord<StoragePrecision>(precision.getValue()) == StoragePrecision::Fp16;
}

/// Of all entries, or of one that is updated by itself: norm, whether it lets the update be made, and the factor
/// min(1, clip / (norm + 1e-6)) of torch.nn.utils.clip_grad_norm_. clip = +inf gives inf / finite = inf, hence 1; where
/// the norm is not finite the factor may be NaN, and nothing reads it.
class Clipping {
public:
  Value norm, finite;

  Clipping(OpBuilder &builder, Location loc, Value step, Value sumOfSquares)
      : builder(builder), loc(loc), step(step), scalar(RankedTensorType::get({}, builder.getF32Type())) {
    norm = graph::SqrtOp::create(builder, loc, scalar, sumOfSquares);
    if (isLossScaled(builder)) {
      unscale = stepField(builder, loc, step, StepParameter::InverseLossScale);
      norm = graph::MulOp::create(builder, loc, scalar, norm, unscale);
    }
    // 0 times infinity is not a number, and nothing is less than that.
    Value share = graph::MulOp::create(builder, loc, scalar, norm,
                                       stepField(builder, loc, step, StepParameter::InverseNormLimit));
    finite = graph::CompareOp::create(builder, loc, RankedTensorType::get({}, builder.getI1Type()), share,
                                      scalarConstant(builder, loc, 1.0), graph::Comparison::Less);
  }

  Value scale() {
    Value clip = stepField(builder, loc, step, StepParameter::Clip);
    Value guarded = graph::AddOp::create(builder, loc, scalar, norm, scalarConstant(builder, loc, 1e-6));
    Value ratio = graph::DivOp::create(builder, loc, scalar, clip, guarded);
    Value scale = graph::MinimumOp::create(builder, loc, scalar, scalarConstant(builder, loc, 1.0), ratio);
    return unscale ? graph::MulOp::create(builder, loc, scalar, scale, unscale).getResult() : scale;
  }

private:
  OpBuilder &builder;
  Location loc;
  Value step, unscale;
  RankedTensorType scalar;
};

/// Whether something of the entry is stored in fewer bits than the update gives: what it is rounded by needs the
/// numbers of elements.
bool isRounded(const UpdateEntry &entry) {
  auto isBf16 = [](Value value) { return getElementTypeOrSelf(value.getType()).isBF16(); };
  return llvm::any_of(entry.states, isBf16) || (isBf16(entry.parameter) && !entry.master);
}

/// What the numbers of elements in their bucket are off the elements' own numbers, for each tensor.
Value tensorNumbers(OpBuilder &builder, Location loc, ArrayRef<UpdatedTensor> tensors) {
  SmallVector<int64_t> numbers;
  for (const UpdatedTensor &tensor : tensors)
    numbers.push_back(int64_t(firstElementNumber(hashName(tensor.name)) - uint64_t(tensor.start)));
  auto type = RankedTensorType::get({int64_t(numbers.size())}, builder.getI64Type());
  return graph::ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, ArrayRef(numbers)));
}

/// What rounding draws by, of an entry of which something is rounded.
struct ElementNumbers {
  Value numbers;
  DenseI64ArrayAttr starts;

  ElementNumbers(OpBuilder &builder, Location loc, const UpdateEntry &entry) {
    if (!isRounded(entry) || entry.tensors.empty())
      return;
    numbers = tensorNumbers(builder, loc, entry.tensors);
    starts = builder.getDenseI64ArrayAttr(
        llvm::map_to_vector(entry.tensors, [](const UpdatedTensor &tensor) { return tensor.start; }));
  }
};

/// The entry as it is updated: flat, and all but graph.optimizer_step itself.
struct FlatStep {
  Value parameter, gradient;            ///< of matrices their direction, made orthogonal
  SmallVector<Value> states, newStates; ///< where matrices have theirs updated, the new ones
  Value scale;                          ///< of `gradient`
};

/// The directions of an entry's matrices, made orthogonal one by one: as flat as the direction.
Value orthogonalize(OpBuilder &builder, const UpdateEntry &entry, Value direction) {
  auto flat = cast<RankedTensorType>(direction.getType());
  const bool isBucket = cast<RankedTensorType>(entry.parameter.getType()).getRank() == 1;
  SmallVector<Value> parts;
  SmallVector<int64_t> offsets;
  for (const UpdatedMatrix &matrix : entry.matrices) {
    auto loc = NameLoc::get(builder.getStringAttr(matrix.name));
    auto type = RankedTensorType::get(matrix.shape, flat.getElementType());
    Value x =
        isBucket
            ? dist::ViewOp::create(builder, loc, type, direction, builder.getI64IntegerAttr(matrix.start)).getResult()
            : reshapeTo(builder, loc, direction, matrix.shape);
    parts.push_back(graph::OrthogonalizeOp::create(builder, loc, type, x));
    offsets.push_back(matrix.start);
  }
  if (!isBucket)
    return flatten(builder, direction.getLoc(), parts.front());
  return dist::PackOp::create(builder, direction.getLoc(), flat, parts, builder.getDenseI64ArrayAttr(offsets));
}

OptimizerOpInterface buildStep(OpBuilder &builder, Location loc, const graph::OptimizerRule &rule,
                               const UpdateEntry &entry, const FlatStep &flat, Value step, Value proceed) {
  SmallVector<Value> kept = flat.states;
  if (entry.master)
    kept.push_back(flatten(builder, loc, entry.master));
  const ElementNumbers numbers(builder, loc, entry);
  auto update = graph::OptimizerStepOp::create(builder, loc, flat.parameter.getType(), ValueRange(kept).getTypes(),
                                               rule.name, flat.parameter, flat.gradient, kept, step, flat.scale,
                                               proceed, uint64_t(entry.decayed), numbers.numbers, numbers.starts);
  graph::setRateFactors(update, graph::simplified(entry.rates));
  graph::RateFactors changes;
  for (const UpdatedMatrix &matrix : entry.matrices) {
    changes.ends.push_back(matrix.start + ShapedType::getNumElements(matrix.shape));
    changes.factors.push_back(matrix.changeFactor);
  }
  graph::setChangeFactors(update, graph::simplified(changes));
  return cast<OptimizerOpInterface>(update.getOperation());
}

/// Of matrices, graph.momentum_direction and what is made of it; the others' states wait for graph.optimizer_step.
FlatStep beginStep(OpBuilder &builder, Location loc, const UpdateEntry &entry, Value step, Value scale, Value proceed) {
  FlatStep flat{flatten(builder, loc, entry.parameter), flatten(builder, loc, entry.gradient), {}, {}, scale};
  for (Value state : entry.states)
    flat.states.push_back(flatten(builder, loc, state));
  if (entry.matrices.empty())
    return flat;
  const ElementNumbers numbers(builder, loc, entry);
  Value momentum = flat.states.pop_back_val();
  Type narrow = cast<RankedTensorType>(flat.gradient.getType()).clone(builder.getBF16Type());
  auto direction = graph::MomentumDirectionOp::create(builder, loc, narrow, momentum.getType(), flat.gradient, momentum,
                                                      step, scale, proceed, numbers.numbers, numbers.starts);
  flat.newStates.push_back(direction.getNewMomentum());
  flat.gradient = orthogonalize(builder, entry, direction.getDirection());
  flat.scale = scalarConstant(builder, loc, 1.0);
  return flat;
}

} // namespace

UpdateValues buildUpdateBody(OpBuilder &builder, Location loc, Value step, ArrayRef<UpdateEntry> entries) {
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  UpdateValues values;
  auto sumOfSquares = [&](const UpdateEntry &entry) -> Value {
    Location entryLoc = entry.gradient.getLoc();
    return graph::SumSquaresOp::create(builder, entryLoc, scalar, flatten(builder, entryLoc, entry.gradient));
  };
  auto added = [&](Value sum, Value squares) {
    return sum ? graph::AddOp::create(builder, loc, scalar, sum, squares).getResult() : squares;
  };
  auto update = [&](const UpdateEntry &entry, Value scale, Value proceed) {
    Location entryLoc = entry.parameter.getLoc();
    auto restore = [&](Value value, Value original) {
      return reshapeTo(builder, entryLoc, value, cast<RankedTensorType>(original.getType()).getShape());
    };
    const graph::OptimizerRule &rule = graph::optimizerOf(moduleOf(builder), !entry.matrices.empty());
    const FlatStep flat = beginStep(builder, entryLoc, entry, step, scale, proceed);
    OptimizerOpInterface op = buildStep(builder, entryLoc, rule, entry, flat, step, proceed);
    UpdatedEntry &updated = values.entries.emplace_back();
    updated.parameter = restore(op.getNewParameter(), entry.parameter);
    SmallVector<Value> kept = op.newKeptValues();
    if (entry.master)
      updated.master = restore(kept.pop_back_val(), entry.master);
    kept.append(flat.newStates);
    for (auto [old, value] : llvm::zip_equal(entry.states, kept))
      updated.states.push_back(restore(value, old));
  };

  Value sum;
  if (graph::updatesInBackward(moduleOf(builder))) {
    // What belongs to one entry stands together: it moves into the backward part as one piece.
    SmallVector<Value> squares;
    for (const UpdateEntry &entry : entries) {
      squares.push_back(sumOfSquares(entry));
      Clipping own(builder, loc, step, squares.back());
      Value scale = own.scale();
      Value known = stepField(builder, loc, step, StepParameter::KnownScale);
      update(entry, graph::MulOp::create(builder, loc, scalar, scale, known), own.finite);
    }
    for (Value one : squares)
      sum = added(sum, one);
  } else {
    for (const UpdateEntry &entry : entries)
      sum = added(sum, sumOfSquares(entry));
  }
  if (!sum)
    sum = scalarConstant(builder, loc, 0.0);
  Clipping all(builder, loc, step, sum);
  values.gradientNorm = all.norm;
  values.finite = all.finite;
  if (graph::updatesInBackward(moduleOf(builder)))
    return values;
  Value scale = all.scale();
  for (const UpdateEntry &entry : entries)
    update(entry, scale, all.finite);
  return values;
}

} // namespace ztc
