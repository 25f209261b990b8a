#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-attach-loss"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ATTACHLOSS
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// The summed loss of each sequence, a scalar where there is one, of the logits, whose rows are counted by `targets`
/// (B, S) and multiplied by `weights` (B, S), where there are some.
Value emitLoss(OpBuilder &builder, const LogitsRoot &logits, Value targets, Value weights) {
  auto logitsType = cast<RankedTensorType>(logits.logits.getType());
  int64_t vocabulary = logitsType.getShape().back(), rows = logitsType.getNumElements() / vocabulary;
  ArrayRef<int64_t> counted = cast<RankedTensorType>(targets.getType()).getShape();
  SmallVector<int64_t> sequences;
  if (counted.size() == 2 && counted[0] > 1)
    sequences.push_back(counted[0]);
  auto lossType = RankedTensorType::get(sequences, logitsType.getElementType());
  if (graph::MatmulOp product = logits.product) {
    Location loc = product.getLoc();
    Value flatTargets = reshapeTo(builder, loc, targets, {rows});
    Value flatWeights = weights ? reshapeTo(builder, loc, weights, {rows}) : Value();
    auto root = graph::LinearCrossEntropyOp::create(
        builder, loc, lossType, Type(), Type(), product.getA(), product.getB(), flatTargets, Value(), flatWeights,
        builder.getF64FloatAttr(logits.scale), builder.getF64FloatAttr(logits.softcap));
    return root.getLoss();
  }
  Location loc = logits.logits.getLoc();
  Value flatTargets = reshapeTo(builder, loc, targets, {rows});
  Value flatWeights = weights ? reshapeTo(builder, loc, weights, {rows}) : Value();
  Value flatLogits = reshapeTo(builder, loc, logits.logits, {rows, vocabulary});
  return graph::CrossEntropyOp::create(builder, loc, lossType, flatLogits, flatTargets, flatWeights);
}

struct AttachLoss : impl::AttachLossBase<AttachLoss> {
  using AttachLossBase::AttachLossBase;
  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    SmallVector<unsigned> tokens = graph::argumentsWithRole(forward, graph::Role::Tokens);
    if (tokens.size() != 1) {
      forward.emitOpError("has ") << tokens.size() << " arguments with the role tokens, expected one";
      return signalPassFailure();
    }
    func::FuncOp eval = cloneFunction(forward, graph::Entry::Eval);
    Value targets = insertArgument(eval, tokens[0] + 1, eval.getArgumentTypes()[tokens[0]], graph::Role::Targets);
    Value weightsOfTargets;
    if (weights || getOperation()->hasAttr(graph::kLossWeights)) {
      auto type = cast<RankedTensorType>(targets.getType()).clone(Float32Type::get(&getContext()));
      weightsOfTargets = insertArgument(eval, tokens[0] + 2, type, graph::Role::LossWeights);
    }
    FailureOr<LogitsRoot> root = findLogits(eval);
    if (failed(root))
      return signalPassFailure();
    Block &body = eval.getBody().front();
    OpBuilder builder(body.getTerminator());
    setResults(eval, {{emitLoss(builder, *root, targets, weightsOfTargets), graph::ResultKind::Loss}});
    eraseDeadOps(body);
  }
};
} // namespace
} // namespace ztc
