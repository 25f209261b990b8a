#include "passes/Autodiff/TokenRows.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/CausalMask.h"

using namespace mlir;

namespace ztc {

RowShape TokenRows::rowsOf(Value value) const {
  auto found = rows_.find(value);
  return found == rows_.end() ? noRows(value) : found->second;
}

std::nullopt_t TokenRows::mixed(Operation *op, StringRef how) {
  if (reason_.empty())
    reason_ = (op->getName().getStringRef() + " " + how).str();
  return std::nullopt;
}

/// The dimension that counts positions; -1 where none does, or more than one.
static int64_t queryOf(const RowShape &rows) {
  int64_t found = -1;
  for (auto [i, count] : llvm::enumerate(rows))
    if (count.positions > 1) {
      if (found >= 0)
        return -1;
      found = int64_t(i);
    }
  return found;
}

bool TokenRows::canReduce(Value value, int64_t along, bool isSum) const {
  auto key = keys_.find(value);
  if (key == keys_.end() || key->second != along)
    return true;
  const int64_t query = queryOf(rowsOf(value));
  return query >= 0 && hidesLater(value, query, along, isSum ? Hidden::Zero : Hidden::Lowest);
}

LogicalResult TokenRows::noteKeys(Operation *op) {
  Value result = op->getResult(0);
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto found = keys_.find(operand);
    if (found == keys_.end())
      continue;
    int64_t key = found->second;
    if (isa<graph::MatmulOp>(op))
      continue; // it has been summed over
    if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op)) {
      if (llvm::is_contained(cast<DenseI64ArrayAttr>(op->getAttr("axes")).asArrayRef(), key))
        continue;
    } else if (isa<graph::ReshapeOp>(op)) {
      key = sameDimension(shapeOf(result), shapeOf(operand), key);
    } else if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
      key = llvm::find(transpose.getPermutation(), key) - transpose.getPermutation().begin();
    } else if (isa<graph::BroadcastOp>(op)) {
      key += int64_t(shapeOf(result).size() - shapeOf(operand).size());
    } else if (auto slice = dyn_cast<graph::SliceOp>(op)) {
      key = slice.getOffsets()[key] == 0 ? key : -1;
    } else if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
      key = i == 0 || int64_t(concat.getAxis()) != key ? key : -1;
    } else if (!op->hasTrait<OpTrait::Elementwise>() && !isa<graph::SoftmaxOp>(op)) {
      key = -1;
    }
    if (key < 0 || keys_.try_emplace(result, key).first->second != key)
      return mixed(op, "moves what rows look at"), failure();
  }
  return success();
}

std::optional<TokenRows::OpRows> TokenRows::rowsThrough(Operation *op) {
  if (isa<graph::MatmulOp>(op))
    return rowsThroughMatmul(op);
  if (isa<graph::TransposeOp, graph::SliceOp, graph::PadOp, graph::ConcatOp, graph::BroadcastOp>(op))
    return rowsThroughMove(op);
  Value first = *llvm::find_if(op->getOperands(), [&](Value value) { return dependsOnTokens(value); });
  const RowShape rows = rowsOf(first);
  OpRows result{std::vector<RowShape>(op->getNumOperands(), rows), rows};
  if (op->hasTrait<OpTrait::Elementwise>() || isa<graph::SwigluOp>(op))
    return result;
  if (isa<graph::SoftmaxOp>(op)) {
    if (rows.back().rows() > 1 || !canReduce(first, int64_t(rows.size()) - 1, /*isSum=*/false))
      return mixed(op, "runs over positions that no known mask hides");
    return result;
  }
  if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op)) {
    for (int64_t axis : cast<DenseI64ArrayAttr>(op->getAttr("axes")).asArrayRef())
      if (rows[axis].rows() > 1 || !canReduce(first, axis, isa<graph::ReduceSumOp>(op)))
        return mixed(op, "runs over positions that no known mask hides");
    return result;
  }
  if (auto norm = dyn_cast<graph::RmsNormOp>(op)) {
    if (first != norm.getX() || dependsOnTokens(norm.getWeight()) || rows.back().rows() > 1)
      return mixed(op, "runs over positions");
    result.operands[1] = noRows(norm.getWeight());
    return result;
  }
  if (auto rope = dyn_cast<graph::RopeOp>(op)) {
    if (first != rope.getX() || rows[1].sequences > 1 || rows[2].rows() > 1 || rows[3].rows() > 1)
      return mixed(op, "does not count positions in its second dimension");
    result.operands[1] = result.operands[2] = {rows[1], RowCount()};
    return result;
  }
  return mixed(op, "is not known to leave positions apart");
}

std::optional<TokenRows::OpRows> TokenRows::rowsThroughMatmul(Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  const bool dynamicA = dependsOnTokens(matmul.getA()), dynamicB = dependsOnTokens(matmul.getB());
  RowShape a = rowsOf(matmul.getA()), b = rowsOf(matmul.getB());
  const size_t lead = a.size() - 2;
  const size_t sumA = matmul.getTransposeA() ? lead : lead + 1, rowA = matmul.getTransposeA() ? lead + 1 : lead;
  const size_t sumB = matmul.getTransposeB() ? lead + 1 : lead, columnB = matmul.getTransposeB() ? lead : lead + 1;
  auto key = keys_.find(matmul.getA());
  const bool hasKeys = key != keys_.end();
  StringRef kept;
  if (hasKeys && key->second == int64_t(sumA) && dynamicB && b[sumB] == RowCount{1, shapeOf(matmul.getB())[sumB]} &&
      canReduce(matmul.getA(), int64_t(sumA), /*isSum=*/true)) {
    kept = "values";
    b[sumB] = {};
  }
  if (a[sumA].rows() > 1 || b[sumB].rows() > 1 || (hasKeys && kept.empty()) || keys_.contains(matmul.getB()))
    return mixed(op, "adds up over positions that no known mask hides");
  if (a[rowA].rows() > 1 && b[columnB].rows() > 1) {
    if (!dynamicA || !dynamicB || b[columnB] != RowCount{1, shapeOf(matmul.getB())[columnB]} || !kept.empty())
      return mixed(op, "multiplies positions with positions");
    kept = "keys";
    b[columnB] = {};
    keys_[matmul.getY()] = int64_t(lead) + 1;
  }
  RowShape result(a.size());
  for (size_t i = 0; i < lead; ++i) {
    if (dynamicA && dynamicB && a[i] != b[i])
      return mixed(op, "multiplies positions with positions");
    a[i] = b[i] = result[i] = dynamicA ? a[i] : b[i];
  }
  result[lead] = a[rowA];
  result[lead + 1] = b[columnB];
  return OpRows{{std::move(a), std::move(b)}, std::move(result), kept};
}

/// Ops that put elements elsewhere: what they cut, join and fill may not be positions.
std::optional<TokenRows::OpRows> TokenRows::rowsThroughMove(Operation *op) {
  Value first = *llvm::find_if(op->getOperands(), [&](Value value) { return dependsOnTokens(value); });
  const RowShape rows = rowsOf(first);
  OpRows result{std::vector<RowShape>(op->getNumOperands(), rows), rows};
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    for (auto [count, from] : llvm::zip_equal(result.result, transpose.getPermutation()))
      count = rows[from];
    return result;
  }
  if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
    if (rows[concat.getAxis()].rows() > 1)
      return mixed(op, "joins positions");
    return result;
  }
  ArrayRef<int64_t> from = shapeOf(first), to = shapeOf(op->getResult(0));
  if (isa<graph::BroadcastOp>(op)) {
    result.result = RowShape(to.size());
    llvm::copy(rows, result.result.end() - rows.size());
    return result;
  }
  for (auto [count, before, after] : llvm::zip_equal(rows, from, to))
    if (count.rows() > 1 && before != after)
      return mixed(op, isa<graph::SliceOp>(op) ? "takes some of the positions" : "adds positions");
  return result;
}

std::optional<TokenRows::Growth> TokenRows::growthOf(Value value, const RowShape &rows) const {
  Operation *op = value.getDefiningOp();
  if (!anyRows(rows))
    return Growth();
  auto splatOf = [](Value factor) -> std::optional<int64_t> {
    auto constant = factor.getDefiningOp<graph::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat || !splat.getElementType().isInteger())
      return std::nullopt;
    return splat.getSplatValue<APInt>().getSExtValue();
  };
  auto grown = [&](Value operand) { return growthOf(operand, rows); };
  if (!op)
    return std::nullopt;
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    const RowCount &count = rows[iota.getDimension()];
    const int64_t each = shapeOf(value)[iota.getDimension()] / count.rows();
    return Growth{count.sequences > 1 ? each * count.positions : 0, count.positions > 1 ? each : 0};
  }
  if (splatOf(value))
    return Growth();
  if (isa<graph::AddOp, graph::SubOp>(op)) {
    std::optional<Growth> a = grown(op->getOperand(0)), b = grown(op->getOperand(1));
    const int64_t sign = isa<graph::AddOp>(op) ? 1 : -1;
    if (!a || !b)
      return std::nullopt;
    return Growth{a->ofSequence + sign * b->ofSequence, a->ofPosition + sign * b->ofPosition};
  }
  if (isa<graph::MulOp>(op))
    for (unsigned i : {0, 1})
      if (std::optional<int64_t> factor = splatOf(op->getOperand(i))) {
        std::optional<Growth> other = grown(op->getOperand(1 - i));
        return other ? std::optional(Growth{*factor * other->ofSequence, *factor * other->ofPosition}) : std::nullopt;
      }
  if (isa<graph::SelectOp>(op)) {
    std::optional<Growth> a = grown(op->getOperand(1)), b = grown(op->getOperand(2));
    return a == b ? a : std::nullopt;
  }
  if (isa<graph::CastOp>(op) && getElementTypeOrSelf(op->getOperand(0)).isInteger())
    return grown(op->getOperand(0));
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
    std::optional<RowShape> inner = reshapedRows(shapeOf(value), rows, shapeOf(reshape.getX()));
    return inner ? growthOf(reshape.getX(), *inner) : std::nullopt;
  }
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getX());
    RowShape inner(rows.end() - int64_t(from.size()), rows.end());
    for (auto [count, size] : llvm::zip_equal(inner, from))
      count = size == 1 ? RowCount() : count;
    return growthOf(broadcast.getX(), inner);
  }
  // What tokens make is a number within the row's own part.
  return dependsOnTokens(value) ? std::optional(Growth()) : std::nullopt;
}

} // namespace ztc
