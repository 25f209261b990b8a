#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-narrow-indices"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_NARROWINDICES
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct NarrowIndices : impl::NarrowIndicesBase<NarrowIndices> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (auto lookup = dyn_cast<graph::EmbeddingOp>(op))
        narrow(lookup.getIndicesMutable());
      if (auto scatter = dyn_cast<graph::EmbeddingGradOp>(op))
        narrow(scatter.getIndicesMutable());
    });
  }

  static void narrow(OpOperand &indices) {
    OpBuilder builder(indices.getOwner());
    graph::Expr wide(builder, indices.getOwner()->getLoc(), indices.get());
    indices.set(graph::castTo(wide, builder.getI32Type()).value());
  }
};
} // namespace
} // namespace ztc
