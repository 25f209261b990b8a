#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include <limits>

#define DEBUG_TYPE "ztc-fold-empty-tensors"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FOLDEMPTYTENSORS
#include "passes/Autodiff/Passes.h.inc"

namespace {

bool isEmpty(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.hasStaticShape() && type.getNumElements() == 0;
}

/// What `op`, of one result that is not empty, gives although an operand is empty; null where that is not a constant.
Value valueWithoutElements(OpBuilder &builder, Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (isa<graph::PadOp, graph::ReduceSumOp, graph::MatmulOp, graph::EmbeddingGradOp>(op))
    return graph::makeConstant(builder, op->getLoc(), type, 0.0);
  if (!isa<graph::ReduceMaxOp>(op))
    return {};
  if (isa<FloatType>(type.getElementType()))
    return graph::makeConstant(builder, op->getLoc(), type, -std::numeric_limits<double>::infinity());
  auto lowest = APInt::getSignedMinValue(type.getElementTypeBitWidth());
  return graph::ConstantOp::create(builder, op->getLoc(), DenseElementsAttr::get(type, lowest));
}

struct FoldEmptyTensors : impl::FoldEmptyTensorsBase<FoldEmptyTensors> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
        fold(&op);
      eraseDeadOps(block);
    }
  }

  static void fold(Operation *op) {
    OpBuilder builder(op);
    for (OpResult result : op->getResults())
      if (isEmpty(result) && !isa<graph::ConstantOp>(op)) {
        auto nothing = DenseElementsAttr::get(cast<ShapedType>(result.getType()), ArrayRef<Attribute>());
        result.replaceAllUsesWith(graph::ConstantOp::create(builder, op->getLoc(), nothing));
      }
    if (llvm::none_of(op->getOperands(), isEmpty) || op->getNumResults() != 1 || isEmpty(op->getResult(0)))
      return;
    if (auto concat = dyn_cast<graph::ConcatOp>(op))
      return dropEmptyParts(concat);
    if (Value value = valueWithoutElements(builder, op))
      op->getResult(0).replaceAllUsesWith(value);
  }

  static void dropEmptyParts(graph::ConcatOp concat) {
    SmallVector<Value> parts = llvm::to_vector(llvm::make_filter_range(concat.getInputs(), std::not_fn(isEmpty)));
    concat.getInputsMutable().assign(parts);
    if (parts.size() == 1)
      concat.replaceAllUsesWith(parts.front());
  }
};
} // namespace
} // namespace ztc
