#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Precision/Policy.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-storage"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYSTORAGE
#include "passes/Verify/Passes.h.inc"

namespace {

/// The cast that makes an f32 value of a narrow one, where nothing but moves stands between it and `value`.
graph::CastOp wideningOf(Value value) {
  while (isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto cast = value.getDefiningOp<graph::CastOp>();
  if (!cast)
    return {};
  Type from = getElementTypeOrSelf(cast.getX().getType()), to = getElementTypeOrSelf(cast.getY().getType());
  bool widens = isa<FloatType>(from) && isa<FloatType>(to) && from != to && graph::isAsWide(to, from);
  return widens ? cast : graph::CastOp();
}

/// Whether `op` reads a parameter that the policy keeps in f32: it does all of its work in f32.
bool readsKeptParameter(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Type bucket = resolveAlias(operand).source.getType();
    return dist::bucketOf(bucket) && getElementTypeOrSelf(bucket).isF32();
  });
}

/// Whether all that `op` gives becomes parts of gradient buckets: a parameter's gradient is f32, also where it is an
/// activation's as it is.
bool isGradientOnly(Operation *op) {
  if (isa<graph::AccumulateOp, dist::PackOp>(op))
    return true;
  bool handsOn = isa<graph::FusionOp>(op) || aliasOf(op);
  return handsOn && llvm::all_of(op->getUsers(), isGradientOnly);
}

/// Whether the policy lets the reader of `use` have f32 there.
bool mayReadWide(OpOperand &use, PrecisionOverrides &overrides) {
  Operation *user = use.getOwner();
  if (isGradientOnly(user))
    return true;
  if (isa<func::ReturnOp>(user)) // a loss, logits: what leaves a function is f32
    return bool(user->getParentOfType<func::FuncOp>().getResultAttr(use.getOperandNumber(), graph::kResult));
  if (auto mixed = dyn_cast<PrecisionOpInterface>(user))
    if (PrecisionRule rule = mixed.getPrecisionRule(); rule.operands[use.getOperandNumber()] == Storage::Wide)
      return true;
  return overrides.hasOp(user) || readsKeptParameter(user);
}

struct VerifyStorage : impl::VerifyStorageBase<VerifyStorage> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    PrecisionOverrides overrides = PrecisionOverrides::of(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto group : function.getBody().front().getOps<graph::FusionOp>())
        if (failed(check(group, overrides)))
          return signalPassFailure();
  }

  /// (W1)
  static LogicalResult check(graph::FusionOp group, PrecisionOverrides &overrides) {
    Operation *yield = group.getBody().front().getTerminator();
    for (auto [result, yielded] : llvm::zip_equal(group->getResults(), yield->getOperands())) {
      graph::CastOp widening = wideningOf(yielded);
      if (dist::bucketOf(result.getType()) || !widening || widening->hasAttr(graph::kWide))
        continue;
      for (OpOperand &use : result.getUses())
        if (!mayReadWide(use, overrides))
          return group.emitOpError("W1: writes an f32 copy of a narrow value, which ")
                 << use.getOwner()->getName() << " reads";
    }
    return success();
  }
};
} // namespace
} // namespace ztc
