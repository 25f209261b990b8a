#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Support/PatternFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/PDL/IR/PDL.h"
#include "mlir/Dialect/PDLInterp/IR/PDLInterp.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Patterns/Passes.h"

#define DEBUG_TYPE "ztc-apply-patterns"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_APPLYPATTERNS
#include "passes/Patterns/Passes.h.inc"

namespace {

std::optional<double> numberOf(Attribute attribute) {
  if (auto real = dyn_cast<FloatAttr>(attribute))
    return real.getValueAsDouble();
  if (auto whole = dyn_cast<IntegerAttr>(attribute))
    return double(whole.getInt());
  return std::nullopt;
}

LogicalResult hasOneUse(PatternRewriter &, Value value) {
  return success(value.hasOneUse());
}

LogicalResult isSplat(PatternRewriter &, Value value, Attribute number) {
  SplatElementsAttr splat;
  const std::optional<double> wanted = numberOf(number);
  if (!wanted || !matchPattern(value, m_Constant(&splat)))
    return failure();
  const std::optional<double> found = numberOf(splat.getSplatValue<Attribute>());
  return success(found && *found == *wanted);
}

FailureOr<Value> splatLike(PatternRewriter &rewriter, Value value, Attribute number) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  const std::optional<double> wanted = numberOf(number);
  if (!type || !wanted)
    return failure();
  return graph::makeConstant(rewriter, value.getLoc(), type, *wanted);
}

/// For each op of a function: patterns that apply more often than that undo one another.
constexpr int64_t kMostRewrites = 64;

/// How often patterns have applied.
struct Counter : RewriterBase::Listener {
  void notifyPatternEnd(const Pattern &, LogicalResult status) override { applied += succeeded(status); }
  unsigned applied = 0;
};

struct ApplyPatterns : impl::ApplyPatternsBase<ApplyPatterns> {
  using ApplyPatternsBase::ApplyPatternsBase;

  LogicalResult initialize(MLIRContext *context) override {
    OwningOpRef<ModuleOp> found = readPatterns(*context, file);
    if (!found)
      return failure();
    PDLPatternModule module(std::move(found));
    module.registerConstraintFunction("HasOneUse", hasOneUse);
    module.registerConstraintFunction("IsSplat", isSplat);
    module.registerRewriteFunction("SplatLike", splatLike);
    RewritePatternSet set(context);
    set.add(std::move(module));
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    Counter counter;
    GreedyRewriteConfig config;
    config.enableFolding(false).setListener(&counter);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled).enableConstantCSE(false);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      counter.applied = 0;
      int64_t ops = 0;
      function.walk([&](Operation *) { ++ops; });
      config.setMaxNumRewrites(kMostRewrites * ops);
      if (failed(applyPatternsGreedily(function, patterns, config))) {
        function.emitError("patterns of ") << file.getValue() << " apply again and again: one undoes what another does";
        return signalPassFailure();
      }
      const auto about = remark::RemarkOpts::name("patterns").category(DEBUG_TYPE).function(function.getName());
      if (counter.applied)
        remark::passed(function.getLoc(), about)
            << std::to_string(counter.applied) << " rewrites by " << file.getValue();
      else
        remark::missed(function.getLoc(), about) << "no pattern of " << file.getValue() << " applies";
    }
  }

  FrozenRewritePatternSet patterns;
};
} // namespace
} // namespace ztc
