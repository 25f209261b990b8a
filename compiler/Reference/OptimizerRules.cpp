// Reference rules of gradient accumulation, norms and AdamW.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include "runtime/Format/StepParameters.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// GraphOptimizer.td, operations in PyTorch's order.
LogicalResult runAdamw(Operation *op, Operands operands, Results results, Interpreter &interpreter) {
  FailureOr<FlatRange> range = interpreter.flatRange(op, op->getOperand(0).getType());
  if (failed(range))
    return failure();
  // Weight decay is a comparison of the index in the whole bucket, also in a shard of it.
  int64_t decayed = static_cast<int64_t>(cast<graph::AdamwOp>(op).getDecayed()) - range->start;
  const Tensor &parameter = *operands[0], &gradient = *operands[1], &expAvg = *operands[2], &expAvgSq = *operands[3];
  const Tensor &hyper = *operands[4];
  auto field = [&](StepParameter index) { return hyper.reals[static_cast<size_t>(index)]; };
  double gradientScale = operands[5]->reals[0];
  results[0] = parameter;
  results[1] = expAvg;
  results[2] = expAvgSq;
  if (!operands[6]->integers[0])
    return success();
  for (int64_t i = 0; i < parameter.count(); ++i) {
    double g = gradient.reals[i] * gradientScale;
    double p = i < decayed ? parameter.reals[i] * field(StepParameter::DecayFactor) : parameter.reals[i];
    double m = expAvg.reals[i] + (g - expAvg.reals[i]) * field(StepParameter::OneMinusBeta1);
    double v = expAvgSq.reals[i] * field(StepParameter::Beta2) + field(StepParameter::OneMinusBeta2) * g * g;
    double denominator = std::sqrt(v) * field(StepParameter::InverseSqrtCorrection2) + field(StepParameter::Epsilon);
    results[0].reals[i] = p - field(StepParameter::StepSize) * m / denominator;
    results[1].reals[i] = m;
    results[2].reals[i] = v;
  }
  return success();
}

} // namespace

void addOptimizerRules(RuleTable &table) {
  // The interpreter runs one micro-step whose accumulator holds a value; `first_writes` is a matter of the executor.
  table.add<graph::AccumulateOp>([](graph::AccumulateOp, Operands operands, Results results) {
    results[0] = *operands[0];
    for (int64_t i = 0; i < results[0].count(); ++i)
      results[0].reals[i] += operands[1]->reals[i];
  });
  table.addNamed(graph::AdamwOp::getOperationName(), runAdamw);
  table.add<graph::SumSquaresOp>([](graph::SumSquaresOp, Operands operands, Results results) {
    for (double value : operands[0]->reals)
      results[0].reals[0] += value * value;
  });
}

} // namespace ztc
