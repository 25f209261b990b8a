// Reference rules of gradient accumulation, norms and optimizers: independent of the formulas that are compiled.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Reference/Interpreter.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/BlockState.h"
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
  std::function<uint64_t(int64_t)> number; ///< of an element, for rounding

  double read(int64_t i) const {
    if (!master)
      return parameter.reals[i];
    if (master->isReal())
      return master->reals[i];
    return joinMaster(toBf16(static_cast<float>(parameter.reals[i])), static_cast<int16_t>(master->integers[i]));
  }
  void write(int64_t i, double value, Tensor &newParameter, Tensor *newMaster) const {
    if (!newMaster)
      return writeNarrow(i, value, newParameter, kParameterStream);
    newParameter.reals[i] = value;
    if (newMaster->isReal()) {
      newMaster->reals[i] = value;
      return;
    }
    SplitMaster split = splitMaster(static_cast<float>(value));
    newParameter.reals[i] = fromBf16(split.parameter);
    newMaster->integers[i] = split.remainder;
  }
  /// What is stored in bf16 is rounded stochastically.
  void writeNarrow(int64_t i, double value, Tensor &stored, uint32_t stream) const {
    stored.reals[i] = value;
    if (!stored.elementType.isBF16())
      return;
    auto field = [&](StepParameter index) { return static_cast<float>(hyper.reals[static_cast<size_t>(index)]); };
    uint32_t key = roundingKey(field(StepParameter::RandomSeed), field(StepParameter::RandomStep), stream);
    stored.reals[i] = fromBf16(roundStochastically(static_cast<float>(value), roundingBits(key, number(i))));
  }
};

/// What one update reads of an element, and the states and the parameter that it gives.
struct ElementUpdate {
  double parameter, gradient;
  bool isDecayed;
  MutableArrayRef<double> states;
  function_ref<double(StepParameter)> field;
  double changeFactor; ///< of Muon: what the change is multiplied by beside the rate

  /// After decoupled weight decay.
  double decayed() const { return isDecayed ? parameter * field(StepParameter::DecayFactor) : parameter; }
};
using ElementRule = double (*)(const ElementUpdate &);

/// Operations in PyTorch's order.
double adamw(const ElementUpdate &x) {
  double &m = x.states[0], &v = x.states[1];
  m += (x.gradient - m) * x.field(StepParameter::OneMinusBeta1);
  v = v * x.field(StepParameter::Beta2) + x.field(StepParameter::OneMinusBeta2) * x.gradient * x.gradient;
  const double denominator =
      std::sqrt(v) * x.field(StepParameter::InverseSqrtCorrection2) + x.field(StepParameter::Epsilon);
  return x.decayed() - x.field(StepParameter::StepSize) * m / denominator;
}

double lion(const ElementUpdate &x) {
  double &m = x.states[0];
  const double mixed = x.field(StepParameter::Beta1) * m + x.field(StepParameter::OneMinusBeta1) * x.gradient;
  m = x.field(StepParameter::Beta2) * m + x.field(StepParameter::OneMinusBeta2) * x.gradient;
  return x.decayed() - x.field(StepParameter::LearningRate) * ((mixed > 0) - (mixed < 0));
}

/// torch.optim.SGD: weight decay is part of the gradient.
double sgd(const ElementUpdate &x) {
  const double g = x.isDecayed ? x.gradient + x.field(StepParameter::WeightDecay) * x.parameter : x.gradient;
  const double momentum = x.field(StepParameter::Momentum);
  double &buffer = x.states[0];
  buffer = momentum * buffer + g;
  const double step = x.field(StepParameter::Nesterov) > 0 ? g + momentum * buffer : buffer;
  return x.parameter - x.field(StepParameter::LearningRate) * step;
}

/// torch.optim.Muon, the last part: what comes as the gradient is orthogonal.
double muon(const ElementUpdate &x) {
  return x.decayed() - x.field(StepParameter::LearningRate) * x.changeFactor * x.gradient;
}

/// The number of the element at `place` of the whole bucket, which is what rounding draws by.
template <typename Op> uint64_t elementNumber(Op op, const Tensor *numbers, int64_t place) {
  if (!op.getNumbers())
    return uint64_t(place);
  const ArrayRef<int64_t> starts = *op.getStarts();
  const auto tensor = llvm::upper_bound(starts, place) - starts.begin() - 1;
  return uint64_t(numbers->integers[tensor]) + uint64_t(place);
}

/// torch.optim.Muon, the first part.
LogicalResult runDirection(graph::MomentumDirectionOp op, Operands operands, Results results,
                           Interpreter &interpreter) {
  FailureOr<FlatRange> range = interpreter.flatRange(op, op.getGradient().getType());
  if (failed(range))
    return failure();
  const Tensor &gradient = *operands[0], &momentum = *operands[1], &hyper = *operands[2];
  const bool proceeds = operands[4]->integers[0];
  const double beta = hyper.reals[static_cast<size_t>(StepParameter::Momentum)];
  results[1] = momentum;
  auto number = [&, start = range->start](int64_t i) {
    return elementNumber(op, operands.size() > 5 ? operands[5] : nullptr, start + i);
  };
  StoredUpdate stored{gradient, nullptr, hyper, number};
  for (int64_t i = 0; i < gradient.count(); ++i) {
    const double g = gradient.reals[i] * operands[3]->reals[0];
    const double updated = momentum.reals[i] + (1 - beta) * (g - momentum.reals[i]);
    results[0].reals[i] = updated - (updated - g) * (1 - beta);
    if (proceeds)
      stored.writeNarrow(i, updated, results[1], 0);
  }
  if (proceeds && isa<graph::Block8Type>(results[1].elementType))
    roundToBlocks(results[1]);
  return success();
}

/// One matrix of graph.orthogonalize, rows <= columns after a transposition.
class Orthogonalization {
public:
  Orthogonalization(int64_t rows, int64_t columns, function_ref<double(double)> round)
      : rows(rows), columns(columns), round(round) {}

  void run(std::vector<double> &x) const {
    double squares = 0;
    for (double value : x)
      squares += value * value;
    const double norm = std::max(round(std::sqrt(squares)), graph::NewtonSchulz::smallestNorm);
    for (double &value : x)
      value = round(value / norm);
    for (int step = 0; step < graph::NewtonSchulz::steps; ++step) {
      // A is symmetric: a product of rows with rows is one with its transpose.
      std::vector<double> a = rowProducts(x, x, rows, columns);
      llvm::for_each(a, [&](double &value) { value = round(value); });
      std::vector<double> b = rowProducts(a, a, rows, rows);
      for (size_t i = 0; i < b.size(); ++i)
        b[i] = round(graph::NewtonSchulz::b * a[i] + graph::NewtonSchulz::c * b[i]);
      std::vector<double> next(x.size());
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = 0; k < rows; ++k)
          for (int64_t j = 0; j < columns; ++j)
            next[i * columns + j] += b[i * rows + k] * x[k * columns + j];
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = round(graph::NewtonSchulz::a * x[i] + next[i]);
    }
  }

private:
  /// The products of all rows of `left` with all of `right`, (rows, width) each.
  static std::vector<double> rowProducts(const std::vector<double> &left, const std::vector<double> &right,
                                         int64_t rows, int64_t width) {
    std::vector<double> products(size_t(rows * rows));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < rows; ++j)
        for (int64_t k = 0; k < width; ++k)
          products[i * rows + j] += left[i * width + k] * right[j * width + k];
    return products;
  }

  int64_t rows, columns;
  function_ref<double(double)> round;
};

void runOrthogonalize(graph::OrthogonalizeOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &x = *operands[0];
  const int64_t rank = x.rank(), rows = x.shape[rank - 2], columns = x.shape[rank - 1], size = rows * columns;
  const Type narrow = op.getType().getElementType();
  const bool isTransposed = rows > columns;
  for (int64_t start = 0; start < x.count(); start += size) {
    // Element (i, j) of what is iterated stands at (j, i) of a matrix with more rows than columns.
    auto place = [&](int64_t i) { return start + (isTransposed ? i % rows * columns + i / rows : i); };
    std::vector<double> matrix(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i)
      matrix[i] = x.reals[place(i)];
    Orthogonalization(std::min(rows, columns), std::max(rows, columns), [&](double value) {
      return interpreter.roundInside(value, narrow);
    }).run(matrix);
    for (int64_t i = 0; i < size; ++i)
      results[0].reals[place(i)] = matrix[i];
  }
}

/// GraphOptimizer.td, element by element.
LogicalResult runStep(graph::OptimizerStepOp op, unsigned states, ElementRule rule, Operands operands, Results results,
                      Interpreter &interpreter) {
  FailureOr<FlatRange> range = interpreter.flatRange(op, op.getParameter().getType());
  if (failed(range))
    return failure();
  // Weight decay is a comparison of the index in the whole bucket, also in a shard of it.
  const int64_t decayed = static_cast<int64_t>(op.getDecayed()) - range->start;
  const Operands kept = operands.slice(2, op.getKept().size()), numbers = operands.drop_front(2 + kept.size());
  const Tensor &parameter = *operands[0], &gradient = *operands[1], &hyper = *numbers[0];
  const double gradientScale = numbers[1]->reals[0];
  results[0] = parameter;
  for (auto [old, result] : llvm::zip_equal(kept, results.drop_front()))
    result = *old;
  if (!numbers[2]->integers[0])
    return success();
  const bool hasMaster = kept.size() > states;
  auto number = [&, start = range->start](int64_t i) {
    return elementNumber(op, numbers.size() > 3 ? numbers[3] : nullptr, start + i);
  };
  StoredUpdate stored{parameter, hasMaster ? kept.back() : nullptr, hyper, number};
  const graph::RateFactors rates = graph::rateFactorsOf(op), changes = graph::changeFactorsOf(op);
  double factor = 1; // of the element's learning rate
  auto field = [&](StepParameter index) {
    const double value = hyper.reals[static_cast<size_t>(index)];
    if (index == StepParameter::LearningRate || index == StepParameter::StepSize)
      return value * factor;
    if (index == StepParameter::DecayFactor && factor != 1)
      return 1 - hyper.reals[static_cast<size_t>(StepParameter::LearningRate)] * factor *
                     hyper.reals[static_cast<size_t>(StepParameter::WeightDecay)];
    return value;
  };
  SmallVector<double> values(states);
  for (int64_t i = 0; i < parameter.count(); ++i) {
    factor = rates.at(range->start + i);
    for (unsigned state = 0; state < states; ++state)
      values[state] = kept[state]->reals[i];
    const double updated = rule(
        {stored.read(i), gradient.reals[i] * gradientScale, i < decayed, values, field, changes.at(range->start + i)});
    stored.write(i, updated, results[0], hasMaster ? &results.back() : nullptr);
    for (unsigned state = 0; state < states; ++state)
      stored.writeNarrow(i, values[state], results[1 + state], state);
  }
  for (unsigned state = 0; state < states; ++state)
    if (isa<graph::Block8Type>(results[1 + state].elementType))
      roundToBlocks(results[1 + state]);
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
  auto addOptimizer = [&](StringRef name, unsigned states, ElementRule rule) {
    table.addOptimizer(name,
                       [states, rule](Operation *op, Operands operands, Results results, Interpreter &interpreter) {
                         return runStep(cast<graph::OptimizerStepOp>(op), states, rule, operands, results, interpreter);
                       });
  };
  addOptimizer("adamw", 2, adamw);
  addOptimizer("lion", 1, lion);
  addOptimizer("muon", 0, muon);
  addOptimizer("sgd", 1, sgd);
  table.add<graph::MomentumDirectionOp>(runDirection);
  table.add<graph::OrthogonalizeOp>(runOrthogonalize);
  table.add<graph::DecodeBlocksOp>([](graph::DecodeBlocksOp, Operands operands, Results results) {
    results[0].shape = operands[0]->shape;
    results[0].reals = operands[0]->reals;
  });
  table.add<graph::EncodeBlocksOp>([](graph::EncodeBlocksOp, Operands operands, Results results) {
    results[0] = *operands[1];
    Tensor encoded = results[0];
    encoded.reals = operands[0]->reals;
    roundToBlocks(encoded);
    const std::vector<int64_t> &proceed = operands[2]->integers;
    for (size_t i = 0; i < encoded.reals.size(); ++i)
      if (proceed[i / kStateBlock * kStateBlock])
        results[0].reals[i] = encoded.reals[i];
  });
  table.add<graph::SumSquaresOp>([](graph::SumSquaresOp, Operands operands, Results results) {
    for (double value : operands[0]->reals)
      results[0].reals[0] += value * value;
  });
}

} // namespace ztc
