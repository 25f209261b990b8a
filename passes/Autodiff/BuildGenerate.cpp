#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-build-generate"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BUILDGENERATE
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// The row of `rows` (T, D) at `position` (1), as (1, D).
Value gatherRow(OpBuilder &builder, Location loc, Value rows, Value position) {
  auto type = cast<RankedTensorType>(rows.getType());
  return graph::EmbeddingOp::create(builder, loc, type.clone(ArrayRef<int64_t>{1, type.getDimSize(1)}), rows, position);
}

struct BuildGenerate : impl::BuildGenerateBase<BuildGenerate> {
  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), "forward");
    if (!forward)
      return signalPassFailure();
    func::FuncOp generate = cloneFunction(forward, "generate");
    auto positionType = RankedTensorType::get({1}, IntegerType::get(&getContext(), 32));
    Value position = insertArgument(generate, 1, positionType, "position");
    FailureOr<LogitsRoot> root = findLogits(generate);
    if (failed(root))
      return signalPassFailure();
    Block &body = generate.getBody().front();
    OpBuilder builder(body.getTerminator());
    Value logits;
    if (graph::MatmulOp product = root->product) {
      Value row = gatherRow(builder, product.getLoc(), product.getA(), position);
      graph::Expr bent(builder, product.getLoc(),
                       graph::MatmulOp::create(builder, product.getLoc(), row, product.getB(), false, true));
      if (root->scale != 1.0)
        bent = bent * root->scale;
      if (root->softcap != 0.0)
        bent = graph::tanh(bent / root->softcap) * root->softcap;
      logits = bent.value();
    } else {
      auto type = cast<RankedTensorType>(root->logits.getType());
      int64_t vocabulary = type.getShape().back();
      Location loc = root->logits.getLoc();
      Value flat = reshapeTo(builder, loc, root->logits, {type.getNumElements() / vocabulary, vocabulary});
      logits = gatherRow(builder, loc, flat, position);
    }
    setResults(generate, {{logits, "logits"}});
    eraseDeadOps(body);
  }
};
} // namespace
} // namespace ztc
