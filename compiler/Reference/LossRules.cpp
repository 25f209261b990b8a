// Reference rules of the loss.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// Log-sum-exp of one row of logits.
double logSumExp(const double *row, int64_t size) {
  double max = *std::max_element(row, row + size), sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += std::exp(row[i] - max);
  return max + std::log(sum);
}

LogicalResult checkTargets(Operation *op, const Tensor &targets, int64_t vocabulary) {
  for (int64_t target : targets.integers)
    if (target >= vocabulary)
      return op->emitOpError("target ") << target << " is outside a vocabulary of " << vocabulary;
  return success();
}

/// Adds the rows to `loss`, group by group, each with its weight where there are `weights`.
void addLosses(const Tensor &logits, const Tensor &targets, const Tensor *weights, Tensor &loss) {
  const int64_t V = logits.shape[1], rows = targets.count() / loss.count();
  for (int64_t t = 0; t < targets.count(); ++t)
    if (targets.integers[t] >= 0)
      loss.reals[t / rows] += (weights ? weights->reals[t] : 1.0) *
                              (logSumExp(&logits.reals[t * V], V) - logits.reals[t * V + targets.integers[t]]);
}

/// (softmax(logits) - onehot(target)) * scale, times the row's weight; zero where the target is not counted.
Tensor gradientOf(const Tensor &logits, const Tensor &targets, const Tensor *weights, double scale) {
  Tensor gradient(logits.shape, logits.elementType);
  int64_t V = logits.shape[1];
  for (int64_t t = 0; t < targets.count(); ++t) {
    if (targets.integers[t] < 0)
      continue;
    const double lse = logSumExp(&logits.reals[t * V], V), own = weights ? scale * weights->reals[t] : scale;
    for (int64_t i = 0; i < V; ++i)
      gradient.reals[t * V + i] = (std::exp(logits.reals[t * V + i] - lse) - (i == targets.integers[t])) * own;
  }
  return gradient;
}

LogicalResult runLinearCrossEntropy(graph::LinearCrossEntropyOp op, Operands operands, Results results,
                                    Interpreter &interpreter) {
  const Tensor &hidden = *operands[0], &head = *operands[1], &targets = *operands[2];
  int64_t T = hidden.shape[0], D = hidden.shape[1], V = head.shape[0];
  if (failed(checkTargets(op, targets, V)))
    return failure();
  Tensor logits({T, V}, hidden.elementType);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < V; ++i)
      for (int64_t d = 0; d < D; ++d)
        logits.reals[t * V + i] += hidden.reals[t * D + d] * head.reals[i * D + d];
  double factor = op.getLogitScale().convertToDouble(), cap = op.getSoftcap().convertToDouble();
  for (double &value : logits.reals) {
    value = interpreter.roundInside(value, hidden.elementType);
    value = cap == 0.0 ? factor * value : cap * std::tanh(factor * value / cap);
  }
  const Tensor *weights = op.getWeights() ? operands[op->getNumOperands() - 1] : nullptr;
  addLosses(logits, targets, weights, results[0]);
  if (!op.getScale())
    return success();
  Tensor dlogits = gradientOf(logits, targets, weights, operands[3]->reals[0]);
  for (auto [value, logit] : llvm::zip_equal(dlogits.reals, logits.reals)) {
    double slope = cap == 0.0 ? factor : factor * (1.0 - (logit / cap) * (logit / cap));
    value = interpreter.roundInside(value * slope, hidden.elementType);
  }
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < V; ++i)
      for (int64_t d = 0; d < D; ++d) {
        results[1].reals[t * D + d] += dlogits.reals[t * V + i] * head.reals[i * D + d];
        if (op.getDhead())
          results[2].reals[i * D + d] += dlogits.reals[t * V + i] * hidden.reals[t * D + d];
      }
  return success();
}

} // namespace

void addLossRules(RuleTable &table) {
  table.add<graph::CrossEntropyOp>([](graph::CrossEntropyOp op, Operands operands, Results results) -> LogicalResult {
    if (failed(checkTargets(op, *operands[1], operands[0]->shape[1])))
      return failure();
    addLosses(*operands[0], *operands[1], op.getWeights() ? operands[2] : nullptr, results[0]);
    return success();
  });
  table.add<graph::CrossEntropyGradOp>([](graph::CrossEntropyGradOp op, Operands operands,
                                          Results results) -> LogicalResult {
    if (failed(checkTargets(op, *operands[1], operands[0]->shape[1])))
      return failure();
    results[0] = gradientOf(*operands[0], *operands[1], op.getWeights() ? operands[3] : nullptr, operands[2]->reals[0]);
    return success();
  });
  table.add<graph::LinearCrossEntropyOp>(runLinearCrossEntropy);
}

} // namespace ztc
