#include "passes/Fusion/WrittenMatrix.h"
#include "runtime/Core/Fp8.h"

using namespace mlir;

namespace ztc {

static RankedTensorType matrixOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Rows of the last dimension; 0 where `value` has none, or too few to make whole vectors of their maxima.
static int64_t rowsOf(Value value) {
  RankedTensorType type = matrixOf(value);
  if (!type.hasStaticShape() || type.getRank() < 2)
    return 0;
  const int64_t rows = type.getNumElements() / type.getShape().back();
  return rows % int64_t(kFp8Tile) == 0 ? rows : 0;
}

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

// Parts of one width are compared element by element first: one pass over a row finds the maximum of all.
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

graph::FusionOp withResult(graph::FusionOp fusion, Value value) {
  Operation *yield = fusion.getBody().front().getTerminator();
  yield->insertOperands(yield->getNumOperands(), value);
  OpBuilder builder(fusion);
  SmallVector<Type> types(fusion.getOutputs().getTypes());
  types.push_back(value.getType());
  // A pointwise chain has one result.
  const graph::FusionKind kind =
      fusion.getKind() == graph::FusionKind::Chain ? graph::FusionKind::Macro : fusion.getKind();
  auto wider = graph::FusionOp::create(builder, fusion.getLoc(), types, fusion.getInputs(), fusion.getName(), kind);
  wider->setDiscardableAttrs(fusion->getDiscardableAttrDictionary());
  wider.getBody().takeBody(fusion.getBody());
  fusion.replaceAllUsesWith(wider.getOutputs().drop_back());
  fusion.erase();
  return wider;
}

} // namespace ztc
