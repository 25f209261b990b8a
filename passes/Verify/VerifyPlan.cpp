#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Target/PlanWriter.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-plan"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/Verify/Passes.h.inc"

namespace {
struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    PlanOptions options;
    // A module that skipped code generation is for memory reports; only its records are checked.
    options.withKernels = !getOperation().getOps<plan_ir::KernelOp>().empty();
    if (failed(buildPlan(getOperation(), options)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
