#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Remarks.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ProductSums.h"

#define DEBUG_TYPE "ztc-fuse-biases"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSEBIASES
#include "passes/Precision/Passes.h.inc"

namespace {

/// The vector that `value` has in each of its rows, through any number of broadcasts and of shapes with one row; null
/// where it is something else.
Value repeatedVector(Value value) {
  const int64_t columns = graph::tensorOf(value).getRank() ? graph::tensorOf(value).getShape().back() : 0;
  auto isOneRow = [&](Value x) {
    const ArrayRef<int64_t> shape = graph::tensorOf(x).getShape();
    return !shape.empty() && shape.back() == columns && graph::tensorOf(x).getNumElements() == columns;
  };
  for (;;) {
    if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
      value = broadcast.getX();
    else if (auto reshape = value.getDefiningOp<graph::ReshapeOp>(); reshape && isOneRow(value))
      value = reshape.getX();
    else
      break;
  }
  return graph::tensorOf(value).getShape() == ArrayRef(columns) ? value : Value();
}

/// Rows of elements of 16 bits that begin at multiples of 16 bytes. Of others cuBLASLt rounds the product before it
/// adds a bias (13.1 on an H200).
bool hasAlignedRows(Value matrix) {
  return graph::tensorOf(matrix).getShape().back() % 8 == 0;
}

/// Whether `product` can add `bias`, which is added to its rows, before it is rounded.
bool canAdd(graph::MatmulOp product, Value bias) {
  const RankedTensorType y = graph::tensorOf(product.getY());
  const Type element = y.getElementType();
  if (!llvm::all_of(ArrayRef<Value>{product.getA(), product.getB(), product.getY()}, hasAlignedRows))
    return false;
  return y.getRank() == 2 && graph::isNarrow(y) && !product->hasAttr(graph::kWide) && !product->hasAttr(graph::kFp8) &&
         getElementTypeOrSelf(product.getA()) == element && getElementTypeOrSelf(bias) == element &&
         graph::tensorOf(bias).getShape() == y.getShape().take_back(1);
}

/// Makes the product, operand `index` of the sum, one that adds the other operand.
bool fuse(graph::AddOp sum, unsigned index) {
  auto product = dyn_cast_or_null<graph::MatmulOp>(onlyReadSource(sum->getOperand(index)));
  const Value repeated = sum->getOperand(1 - index), bias = product ? repeatedVector(repeated) : Value();
  if (!bias || !canAdd(product, bias))
    return false;
  // At the sum, where the bias is known.
  OpBuilder builder(sum);
  auto fused =
      graph::MatmulBiasOp::create(builder, product.getLoc(), product.getY().getType(), product.getA(), product.getB(),
                                  bias, product.getTransposeAAttr(), product.getTransposeBAttr());
  fused->setDiscardableAttrs(product->getDiscardableAttrDictionary());
  Value result = fused.getY();
  if (result.getType() != sum.getType())
    result = graph::ReshapeOp::create(builder, sum.getLoc(), sum.getType(), result);
  replaceSum(sum, index, product, result);
  for (Value dead = repeated; dead != bias && dead.use_empty();) {
    Operation *op = dead.getDefiningOp();
    dead = op->getOperand(0);
    op->erase();
  }
  return true;
}

void fuseBiases(func::FuncOp function) {
  const unsigned count = fuseSums(function, endOfForward(function), fuse);
  if (count)
    remark::passed(function.getLoc(),
                   remark::RemarkOpts::name("biases").category(DEBUG_TYPE).function(function.getName()))
        << std::to_string(count) << " products add their biases";
}

struct FuseBiases : impl::FuseBiasesBase<FuseBiases> {
  using FuseBiasesBase::FuseBiasesBase;

  void runOnOperation() override {
    if (!enabled)
      return markAllAnalysesPreserved();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!graph::isEntry(function, graph::Entry::Update))
        fuseBiases(function);
  }
};
} // namespace
} // namespace ztc
