// Reference rules of gradient accumulation, norms and AdamW.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StochasticRounding.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// A bucket's state as the update computes with it, and back: bf16 parameters with their remainders, f16 ones with
/// their masters, bf16 moments that are rounded stochastically.
struct StoredUpdate {
  const Tensor &parameter, *master, &hyper;
  int64_t start; ///< of the shard in its bucket

  double read(int64_t i) const {
    if (!master)
      return parameter.reals[i];
    if (master->isReal())
      return master->reals[i];
    return joinMaster(toBf16(static_cast<float>(parameter.reals[i])), static_cast<int16_t>(master->integers[i]));
  }
  void write(int64_t i, double value, Tensor &newParameter, Tensor *newMaster) const {
    newParameter.reals[i] = value;
    if (!newMaster)
      return;
    if (newMaster->isReal()) {
      newMaster->reals[i] = value;
      return;
    }
    SplitMaster split = splitMaster(static_cast<float>(value));
    newParameter.reals[i] = fromBf16(split.parameter);
    newMaster->integers[i] = split.remainder;
  }
  void writeState(int64_t i, double value, Tensor &state, uint32_t stream) const {
    state.reals[i] = value;
    if (!state.elementType.isBF16())
      return;
    auto field = [&](StepParameter index) { return static_cast<float>(hyper.reals[static_cast<size_t>(index)]); };
    uint32_t key = roundingKey(field(StepParameter::RandomSeed), field(StepParameter::RandomStep), stream);
    state.reals[i] =
        fromBf16(roundStochastically(static_cast<float>(value), roundingBits(key, static_cast<uint64_t>(start + i))));
  }
};

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
  const Tensor *master = operands.size() > 7 ? operands[7] : nullptr;
  Tensor *newMaster = master ? &results[3] : nullptr;
  if (master)
    *newMaster = *master;
  StoredUpdate stored{parameter, master, hyper, range->start};
  if (!operands[6]->integers[0])
    return success();
  for (int64_t i = 0; i < parameter.count(); ++i) {
    double g = gradient.reals[i] * gradientScale;
    double old = stored.read(i), p = i < decayed ? old * field(StepParameter::DecayFactor) : old;
    double m = expAvg.reals[i] + (g - expAvg.reals[i]) * field(StepParameter::OneMinusBeta1);
    double v = expAvgSq.reals[i] * field(StepParameter::Beta2) + field(StepParameter::OneMinusBeta2) * g * g;
    double denominator = std::sqrt(v) * field(StepParameter::InverseSqrtCorrection2) + field(StepParameter::Epsilon);
    stored.write(i, p - field(StepParameter::StepSize) * m / denominator, results[0], newMaster);
    stored.writeState(i, m, results[1], 0);
    stored.writeState(i, v, results[2], 1);
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
