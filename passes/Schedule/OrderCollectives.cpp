#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Schedule/Passes.h"

#define DEBUG_TYPE "ztc-order-collectives"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ORDERCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"

namespace {

struct OrderCollectives : impl::OrderCollectivesBase<OrderCollectives> {
  void runOnOperation() override {
    Builder builder(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      int64_t order = 0;
      for (Operation &op : function.getBody().front())
        if (isCollectiveStart(&op))
          op.setAttr("order", builder.getI64IntegerAttr(order++));
    }
  }
};
} // namespace
} // namespace ztc
