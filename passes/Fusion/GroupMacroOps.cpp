#include "compiler/Analysis/StepKinds.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/Group.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-group-macro-ops"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GROUPMACROOPS
#include "passes/Fusion/Passes.h.inc"

namespace {

/// Writes out, inside `fusion`, the macro op that is alone in it.
LogicalResult decomposeInside(graph::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body)) {
    auto macro = dyn_cast<DecomposableOpInterface>(op);
    if (!macro)
      continue;
    OpBuilder builder(&op);
    FailureOr<SmallVector<Value>> values = macro.decompose(builder);
    if (failed(values))
      return failure();
    op.replaceAllUsesWith(*values);
    op.erase();
  }
  // A decomposition may write results nobody asked for, and constants twice.
  eraseDeadOps(body);
  return success();
}

struct GroupMacroOps : impl::GroupMacroOpsBase<GroupMacroOps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> macros;
      for (Operation &op : function.getBody().front())
        if (isa<DecomposableOpInterface>(op) && !isLibraryCall(&op))
          macros.push_back(&op);
      for (Operation *op : macros) {
        std::string name = op->getName().stripDialect().str();
        if (failed(decomposeInside(groupOps(op, name, "macro op, one kernel"))))
          return signalPassFailure();
      }
    }
  }
};
} // namespace
} // namespace ztc
