// Emission of losses that stand in the graph: classes are dimension 1, targets (N, d...). The loss that ztc trains is
// attached to the logits; these are what a graph computes beside them.
#include "frontends/onnx/Emitter.h"

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// -weight[target] * logProbabilities[target], zero where the target is ignored, reduced as the node says.
LogicalResult negativeLogLikelihood(Emitter &e, const Expr &logProbabilities) {
  mlir::Value targets = e.operand(1);
  if (!targets)
    return failure();
  ArrayRef<int64_t> shape = logProbabilities.type().getShape();
  if (shape.size() < 2 || typeOf(targets).getRank() + 1 != int64_t(shape.size()))
    return e.fail("scores and targets do not fit each other");
  SmallVector<int64_t> column(shape);
  column[1] = 1;
  Expr target = e.expr(reshapeTo(e.builder, e.loc, targets, column));
  target = castTo(target, e.builder.getI32Type());
  Expr classes = e.expr(iotaOf(e.builder, e.loc, shape, 1)), zero = zeroLike(logProbabilities);
  Expr isTarget = classes == broadcastLike(target, classes);
  Expr weight = constantLike(logProbabilities, 1);
  if (e.node->hasInput(2)) {
    mlir::Value given = e.operand(2);
    if (!given)
      return failure();
    SmallVector<int64_t> vector(shape.size(), 1);
    vector[1] = shape[1];
    weight = e.expr(broadcastTo(e.builder, e.loc, reshapeTo(e.builder, e.loc, given, vector), shape));
  }
  auto picked = [&](const Expr &x) { return reduceSum(select(isTarget, x, zero), {1}); }; // (N, 1, d...)
  Expr loss = picked(-logProbabilities * weight), counted = picked(weight);
  if (e.node->has("ignore_index")) {
    Expr isIgnored = target == constantLike(target, double(e.node->integer("ignore_index", 0)));
    loss = select(isIgnored, zeroLike(loss), loss);
    counted = select(isIgnored, zeroLike(counted), counted);
  }
  std::string reduction = e.node->text("reduction", "mean");
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size())));
  if (reduction == "mean")
    loss = reduceSum(loss, axes) / reduceSum(counted, axes);
  else if (reduction == "sum")
    loss = reduceSum(loss, axes);
  e.define(0, reshapeTo(e.builder, e.loc, loss.value(), e.outputShape()));
  return success();
}

LogicalResult nll(Emitter &e) {
  mlir::Value x = e.operand(0);
  return x ? negativeLogLikelihood(e, e.expr(x)) : failure();
}

LogicalResult crossEntropy(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  if (typeOf(x).getRank() < 2)
    return e.fail("scores have no dimension of classes");
  Expr scores = e.expr(x);
  Expr most = scores.with(graph::ReduceMaxOp::create(e.builder, e.loc, x, ArrayRef<int64_t>{1}));
  Expr shifted = scores - broadcastLike(most, scores);
  Expr logProbabilities = shifted - broadcastLike(log(reduceSum(exp(shifted), {1})), shifted);
  e.define(1, logProbabilities.value());
  return negativeLogLikelihood(e, logProbabilities);
}

} // namespace

void addLossEmission(llvm::StringMap<EmitFunction> &t) {
  t["NegativeLogLikelihoodLoss"] = nll;
  t["SoftmaxCrossEntropyLoss"] = crossEntropy;
}

} // namespace ztc::importer
