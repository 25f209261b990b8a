#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Remarks.h"
#include "passes/Recompute/Candidates.h"
#include "passes/Recompute/Passes.h"
#include "passes/Recompute/Policies.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "ztc-mark-recomputed"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MARKRECOMPUTED
#include "passes/Recompute/Passes.h.inc"

namespace {

struct MarkRecomputed : impl::MarkRecomputedBase<MarkRecomputed> {
  using MarkRecomputedBase::MarkRecomputedBase;

  void runOnOperation() override {
    if (failed(mark()))
      signalPassFailure();
  }

  FailureOr<RecomputeChoice> findChoice(func::FuncOp microstep, const RecomputeCandidates &candidates) {
    if (const RecomputePolicy *policy = findRecomputePolicy(level))
      return (*policy)(microstep, candidates);
    FailureOr<RecomputeChoice> parsed = RecomputeChoice::parse(choice);
    if (level != "choice" || failed(parsed))
      return getOperation().emitError("there is no level '")
                 << level << "' of recomputation with the choice '" << choice << "': cheap, layer, or choice and which",
             failure();
    return parsed;
  }

  LogicalResult mark() {
    auto function = graph::findEntry(getOperation(), graph::Entry::Microstep);
    Operation *lossOp = function ? lossOpOf(function) : nullptr;
    if (!lossOp)
      return getOperation().emitError("no @microstep computes a loss: nothing can be recomputed");
    RecomputeCandidates candidates(function, lossOp);
    FailureOr<RecomputeChoice> which = findChoice(function, candidates);
    if (failed(which))
      return failure();
    llvm::SetVector<Operation *> chosen = candidates.ops(*which);
    if (chosen.empty() && level != "choice")
      function.emitWarning("--recompute=")
          << level << " changes nothing: backward reads no value that this level computes again";
    int64_t values = 0, bytes = 0;
    for (Operation *op : chosen) {
      op->setAttr(kRecomputed, UnitAttr::get(&getContext()));
      for (Value result : op->getResults())
        if (isReadByBackward(result, lossOp)) {
          ++values;
          bytes += tensorBytes(result.getType());
        }
    }
    remark::passed(function.getLoc(),
                   remark::RemarkOpts::name("recompute").category(DEBUG_TYPE).function(function.getName()))
        << llvm::formatv("{0}: {1} values of {2} bytes are computed again instead of being kept, by {3} ops",
                         level == "choice" ? which->text() : level.getValue(), values, bytes, chosen.size())
               .str();
    return success();
  }
};
} // namespace
} // namespace ztc
