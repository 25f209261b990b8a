#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-duplicate-widenings"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DUPLICATEWIDENINGS
#include "passes/Fusion/Passes.h.inc"

namespace {

struct DuplicateWidenings : impl::DuplicateWideningsBase<DuplicateWidenings> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto cast : llvm::make_early_inc_range(function.getBody().front().getOps<graph::CastOp>()))
        if (isWidening(cast) && !cast.getY().hasOneUse())
          duplicate(cast);
  }

  /// One copy before each reader.
  static void duplicate(graph::CastOp cast) {
    for (OpOperand &use : llvm::make_early_inc_range(cast.getY().getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*cast)->getResult(0));
    }
    cast.erase();
  }
};
} // namespace
} // namespace ztc
