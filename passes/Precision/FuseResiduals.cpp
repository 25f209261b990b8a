#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ProductSums.h"

#define DEBUG_TYPE "ztc-fuse-residuals"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSERESIDUALS
#include "passes/Precision/Passes.h.inc"

namespace {

/// What a linear layer computes: a product, with its bias where it adds one.
struct LayerProduct {
  Operation *op = nullptr; ///< null: something else
  Value a, b, bias;
  UnitAttr transposeA, transposeB;

  template <typename Op> static LayerProduct of(Op product, Value bias) {
    return {product, product.getA(), product.getB(), bias, product.getTransposeAAttr(), product.getTransposeBAttr()};
  }
  static LayerProduct of(Operation *op) {
    if (auto product = dyn_cast_or_null<graph::MatmulOp>(op))
      return of(product, {});
    if (auto product = dyn_cast_or_null<graph::MatmulBiasOp>(op))
      return of(product, product.getBias());
    return {};
  }
};

class ResidualFuser {
public:
  explicit ResidualFuser(func::FuncOp function) : function(function), lossOp(endOfForward(function)) {}

  void run() {
    const unsigned count =
        fuseSums(function, lossOp, [&](graph::AddOp sum, unsigned index) { return fuse(sum, index); });
    if (count)
      remark::passed(function.getLoc(),
                     remark::RemarkOpts::name("residuals").category(DEBUG_TYPE).function(function.getName()))
          << std::to_string(count) << " products add what was added to them";
  }

private:
  bool isForward(Operation *op) const { return !lossOp || op->isBeforeInBlock(lossOp); }

  /// Ops of the forward part that read `value`, in whatever shape: what backward reads besides must not decide, or a
  /// value would be rounded otherwise in training than in evaluation; nor may shapes, or a cached row of a text would
  /// be rounded otherwise than the whole text.
  unsigned forwardReaders(Value value) const {
    unsigned count = 0;
    for (Operation *user : value.getUsers())
      if (isForward(user))
        count += isa<graph::ReshapeOp>(user) ? forwardReaders(user->getResult(0)) : 1;
    return count;
  }

  /// Whether `value` is in memory whatever becomes of the sum: no kernel that makes the sum could make it on the way.
  bool isStored(Value value) const {
    const Value source = withoutReshapes(value);
    Operation *op = source.getDefiningOp();
    return !op || isLibraryCall(op) || forwardReaders(source) > 1;
  }

  /// `value` in the shape of `type`.
  static Value inShapeOf(RankedTensorType type, Value value, OpBuilder &builder, Location loc) {
    Value source = value;
    while (source.getType() != type) {
      auto reshape = source.getDefiningOp<graph::ReshapeOp>();
      if (!reshape)
        return graph::ReshapeOp::create(builder, loc, type, value);
      source = reshape.getX();
    }
    return source;
  }

  /// Makes the product, operand `index` of the sum, one that adds the other operand.
  bool fuse(graph::AddOp sum, unsigned index) {
    const LayerProduct layer = LayerProduct::of(onlyReadSource(sum->getOperand(index)));
    Value other = sum->getOperand(1 - index);
    if (!layer.op || layer.op->hasAttr(graph::kWide) || layer.op->hasAttr(graph::kFp8))
      return false;
    auto type = cast<RankedTensorType>(layer.op->getResult(0).getType());
    if (!graph::isNarrow(sum.getType()) || type.getElementType() != getElementTypeOrSelf(sum.getType()) ||
        other.getType() != sum.getType() || getElementTypeOrSelf(layer.a) != type.getElementType() || !isStored(other))
      return false;
    // A layer and its adapter: phase `shard` merges such sums with their neighbours'.
    if (LayerProduct::of(withoutReshapes(other).getDefiningOp()).op)
      return false;
    OpBuilder builder(sum);
    auto fused = graph::MatmulAddOp::create(builder, layer.op->getLoc(), type, layer.a, layer.b,
                                            inShapeOf(type, other, builder, sum.getLoc()), layer.bias, layer.transposeA,
                                            layer.transposeB);
    fused->setDiscardableAttrs(layer.op->getDiscardableAttrDictionary());
    Value result = inShapeOf(cast<RankedTensorType>(sum.getType()), fused.getY(), builder, sum.getLoc());
    replaceSum(sum, index, layer.op, result);
    return true;
  }

  func::FuncOp function;
  Operation *lossOp; ///< of @microstep, after which backward begins
};

struct FuseResiduals : impl::FuseResidualsBase<FuseResiduals> {
  using FuseResidualsBase::FuseResidualsBase;

  void runOnOperation() override {
    if (!enabled)
      return markAllAnalysesPreserved();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!graph::isEntry(function, graph::Entry::Update))
        ResidualFuser(function).run();
  }
};
} // namespace
} // namespace ztc
