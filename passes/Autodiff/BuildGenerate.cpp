#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-build-generate"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_BUILDGENERATE
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// The rows of `rows` (T, D) at the positions (B) of B sequences, as (B, D).
Value gatherRows(OpBuilder &builder, Location loc, Value rows, Value positions) {
  auto type = cast<RankedTensorType>(rows.getType());
  graph::Expr index(builder, loc, positions);
  const int64_t sequences = index.dim(0);
  if (sequences > 1) { // one that rests has the position -1: any row will do
    const int64_t rowsEach = type.getDimSize(0) / sequences;
    graph::Expr sequence = index.with(graph::IotaOp::create(builder, loc, index.type(), 0));
    index = graph::select(index >= graph::zeroLike(index), index, graph::zeroLike(index)) + sequence * double(rowsEach);
  }
  return graph::EmbeddingOp::create(builder, loc, type.clone(ArrayRef<int64_t>{sequences, type.getDimSize(1)}), rows,
                                    index.value());
}

struct BuildGenerate : impl::BuildGenerateBase<BuildGenerate> {
  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    func::FuncOp generate = cloneFunction(forward, graph::Entry::Generate);
    ArrayRef<int64_t> tokens = cast<RankedTensorType>(generate.getArgumentTypes()[0]).getShape();
    const int64_t sequences = tokens.size() == 2 ? tokens[0] : 1;
    auto positionType = RankedTensorType::get({sequences}, IntegerType::get(&getContext(), 32));
    Value position = insertArgument(generate, 1, positionType, graph::Role::Position);
    FailureOr<LogitsRoot> root = findLogits(generate);
    if (failed(root))
      return signalPassFailure();
    Block &body = generate.getBody().front();
    OpBuilder builder(body.getTerminator());
    Value logits;
    if (graph::MatmulOp product = root->product) {
      Value row = gatherRows(builder, product.getLoc(), product.getA(), position);
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
      logits = gatherRows(builder, loc, flat, position);
    }
    setResults(generate, {{logits, graph::ResultKind::Logits}});
    eraseDeadOps(body);
  }
};
} // namespace
} // namespace ztc
