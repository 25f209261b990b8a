#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/UpdateFunction.h"

#define DEBUG_TYPE "ztc-build-update"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct BuildUpdate : impl::BuildUpdateBase<BuildUpdate> {
  void runOnOperation() override {
    func::FuncOp microstep = findFunction(getOperation(), "microstep");
    if (!microstep)
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    buildUpdateFunction(builder, microstep, /*momentType=*/Type());
  }
};
} // namespace
} // namespace ztc
