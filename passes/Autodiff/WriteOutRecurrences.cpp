#include "compiler/Dialect/Graph/Recurrence.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-write-out-recurrences"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_WRITEOUTRECURRENCES
#include "passes/Autodiff/Passes.h.inc"

namespace {

struct WriteOutRecurrences : impl::WriteOutRecurrencesBase<WriteOutRecurrences> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      SmallVector<Operation *> recurrences;
      for (Operation &op : block)
        if (isa<graph::LinearAttentionOp, graph::CausalConvolutionOp>(op))
          recurrences.push_back(&op);
      for (Operation *op : recurrences) {
        OpBuilder builder(op);
        op->replaceAllUsesWith(*cast<DecomposableOpInterface>(op).decompose(builder));
        op->erase();
      }
      if (!recurrences.empty())
        eraseDeadOps(block);
    }
  }
};
} // namespace
} // namespace ztc
