#include "compiler/Dialect/Graph/Fp8.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-fuse-amax"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSEAMAX
#include "passes/Fusion/Passes.h.inc"

namespace {

RankedTensorType matrixOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// Rows of the last dimension; 0 where `value` has none, or too few to make whole vectors of their maxima.
int64_t rowsOf(Value value) {
  RankedTensorType type = matrixOf(value);
  if (!type.hasStaticShape() || type.getRank() < 2)
    return 0;
  const int64_t rows = type.getNumElements() / type.getShape().back();
  return rows % int64_t(kFp8Tile) == 0 ? rows : 0;
}

/// What `value`, a result of a group, is written as: itself, or matrices side by side, whose rows are parts of its own.
/// None where these are pieces of such rows, as heads are.
SmallVector<Value> partsOf(Value value) {
  SmallVector<Value> parts;
  auto joined = value.getDefiningOp<graph::ConcatOp>();
  if (joined && matrixOf(joined).getRank() == 2 && joined.getAxis() == 1)
    parts = llvm::map_to_vector(joined.getInputs(), withoutReshapes);
  else
    parts.push_back(value);
  const int64_t rows = rowsOf(value);
  if (!rows || llvm::any_of(parts, [&](Value part) { return rowsOf(part) != rows; }))
    parts.clear();
  return parts;
}

/// The absolute maxima of the rows of all `parts` together, (rows, 1), at the end of their group. Parts of one width
/// are compared element by element first: one pass over a row finds the maximum of all.
Value amaxOf(ArrayRef<Value> parts, OpBuilder &builder) {
  const int64_t rows = rowsOf(parts.front());
  SmallVector<Value> magnitudes;
  for (Value part : parts) {
    Value magnitude = graph::AbsOp::create(builder, part.getLoc(), part);
    auto same = llvm::find_if(magnitudes, [&](Value other) { return other.getType() == magnitude.getType(); });
    if (same == magnitudes.end())
      magnitudes.push_back(magnitude);
    else
      *same = graph::MaximumOp::create(builder, part.getLoc(), *same, magnitude);
  }
  Value amax;
  for (Value magnitude : magnitudes) {
    const RankedTensorType type = matrixOf(magnitude);
    Value largest = graph::ReduceMaxOp::create(builder, magnitude.getLoc(), magnitude, {type.getRank() - 1});
    auto column = RankedTensorType::get({rows, 1}, type.getElementType());
    if (largest.getType() != column)
      largest = graph::ReshapeOp::create(builder, magnitude.getLoc(), column, largest);
    amax = amax ? graph::MaximumOp::create(builder, magnitude.getLoc(), amax, largest).getResult() : largest;
  }
  return amax;
}

/// The group that also gives `amax`, a value of its body, as its last result; `fusion` is gone.
graph::FusionOp withResult(graph::FusionOp fusion, Value amax) {
  Operation *yield = fusion.getBody().front().getTerminator();
  yield->insertOperands(yield->getNumOperands(), amax);
  OpBuilder builder(fusion);
  SmallVector<Type> types(fusion.getOutputs().getTypes());
  types.push_back(amax.getType());
  auto wider =
      graph::FusionOp::create(builder, fusion.getLoc(), types, fusion.getInputs(), fusion.getName(), fusion.getKind());
  wider->setDiscardableAttrs(fusion->getDiscardableAttrDictionary());
  wider.getBody().takeBody(fusion.getBody());
  fusion.replaceAllUsesWith(wider.getOutputs().drop_back());
  fusion.erase();
  return wider;
}

/// Gives `quantize` the absolute maxima of its matrix where a group can.
void fuseAmax(graph::QuantizeFp8Op quantize) {
  auto written = dyn_cast<OpResult>(withoutReshapes(quantize.getX()));
  auto fusion = written ? dyn_cast<graph::FusionOp>(written.getOwner()) : graph::FusionOp();
  if (!fusion)
    return;
  Operation *yield = fusion.getBody().front().getTerminator();
  SmallVector<Value> parts = partsOf(withoutReshapes(yield->getOperand(written.getResultNumber())));
  if (parts.empty())
    return;
  OpBuilder builder(yield);
  graph::FusionOp wider = withResult(fusion, amaxOf(parts, builder));
  quantize.getAmaxMutable().assign(wider.getOutputs().back());
}

struct FuseAmax : impl::FuseAmaxBase<FuseAmax> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto quantize : llvm::make_early_inc_range(function.getBody().front().getOps<graph::QuantizeFp8Op>()))
        if (!quantize.getAmax()) {
          fuseAmax(quantize);
          isChanged = true;
        }
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace ztc
