#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/UpdateFunction.h"
#include "llvm/ADT/StringExtras.h"

#define DEBUG_TYPE "ztc-build-update"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct BuildUpdate : impl::BuildUpdateBase<BuildUpdate> {
  using BuildUpdateBase::BuildUpdateBase;

  void runOnOperation() override {
    func::FuncOp microstep = findFunction(getOperation(), graph::Entry::Microstep);
    if (!microstep)
      return signalPassFailure();
    if (!graph::findOptimizer(optimizer)) {
      getOperation().emitError("there is no optimizer '")
          << optimizer.getValue() << "'; there are " << llvm::join(graph::optimizerNames(), ", ");
      return signalPassFailure();
    }
    if (optimizer != "adamw")
      getOperation()->setAttr(graph::kOptimizer, StringAttr::get(&getContext(), optimizer.getValue()));
    if (inBackward)
      getOperation()->setAttr(graph::kUpdateInBackward, UnitAttr::get(&getContext()));
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    buildUpdateFunction(builder, microstep, UpdateStorage());
  }
};
} // namespace
} // namespace ztc
