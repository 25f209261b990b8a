// What chunks of linear attention are made of, against plain loops: states from chunk to chunk, inverses of matrices.
#include "runtime/Format/StatePassingOperands.h"
#include "tests/conformance/StepRunner.h"
#include <algorithm>

namespace ztc::test {
namespace {

/// States through chunks, as a record says it.
struct States {
  plan::StatePassing passing;
  std::vector<std::vector<float>> operands; ///< in the step's order, results of zeros

  explicit States(const plan::StatePassing &shape) : passing(shape) {
    uint32_t seed = 1;
    const StatePassingOperands parts(passing);
    for (const StatePassingOperands::Operand &operand : parts.all())
      if (operand.index >= 0)
        operands.push_back(randomFloats(operand.bytes.value() / 4, ++seed));
    // States neither grow nor shrink much, as those of a model.
    for (Part part : {Part::To, Part::From})
      for (float *x = of(part), *end = x ? x + elements(part) : x; x != end; ++x)
        *x *= 0.3f;
    for (float *x = of(Part::Decay), *end = x ? x + elements(Part::Decay) : x; x != end; ++x)
      *x = 0.5f + 0.25f * *x;
  }

  using Part = StatePassingOperands::Part;
  int indexOf(Part part) const { return StatePassingOperands(passing)[part].index; }
  float *of(Part part) { return indexOf(part) < 0 ? nullptr : operands[size_t(indexOf(part))].data(); }
  size_t elements(Part part) const { return operands[size_t(indexOf(part))].size(); }

  /// Fills the results, in f64.
  void compute() {
    const uint64_t N = passing.chunks(), R = passing.rows(), K = passing.keys(), V = passing.values(),
                   C = passing.positions(), parts = passing.decay_parts();
    for (uint64_t r = 0; r < R; ++r) {
      std::vector<double> state(K * V, 0.0);
      if (const float *past = of(Part::Past))
        std::copy_n(past + r * K * V, K * V, state.begin());
      for (uint64_t step = 0; step < N; ++step) {
        const uint64_t row = (passing.reverse() ? N - 1 - step : step) * R + r;
        const std::vector<double> before = state;
        std::copy(before.begin(), before.end(), of(Part::Before) + row * K * V);
        for (uint64_t i = 0; i < K * V; ++i) {
          if (const float *decay = of(Part::Decay))
            state[i] *= decay[(row * passing.decay_keys() + (passing.decay_keys() > 1 ? i / V : 0)) * parts +
                              i % V / (V / parts)];
          if (const float *plus = of(Part::Plus))
            state[i] += plus[row * K * V + i];
        }
        for (uint64_t c = 0; c < C; ++c)
          for (uint64_t v = 0; v < V; ++v) {
            double x = of(Part::Update)[(row * C + c) * V + v];
            for (uint64_t k = 0; k < K; ++k)
              x += double(of(Part::From)[(row * C + c) * K + k]) * before[k * V + v];
            of(Part::X)[(row * C + c) * V + v] = float(x);
            for (uint64_t k = 0; k < K; ++k)
              state[k * V + v] += double(of(Part::To)[(row * C + c) * K + k]) * x;
          }
      }
      std::copy(state.begin(), state.end(), of(Part::Last) + r * K * V);
    }
  }

  /// The results of a run, in the step's order.
  std::vector<std::vector<float>> run(uint32_t threads) const {
    StepRunner runner;
    std::vector<uint32_t> slots;
    for (const std::vector<float> &operand : operands)
      slots.push_back(slots.size() < firstResult() ? runner.slot(operand) : runner.scratch(operand.size() * 4, false));
    plan::Step &step = *runner.step("states", {});
    for (uint32_t slot : slots)
      step.add_operands()->set_slot(slot);
    plan::StatePassing &record = *step.mutable_state_passing();
    record = passing;
    runner.useGpuKernels(record, {passing.positions() ? "gpu_state_passing_products" : "gpu_state_passing_sums"});
    runner.runOnce(threads);
    std::vector<std::vector<float>> results;
    for (size_t i = firstResult(); i < slots.size(); ++i)
      results.push_back(runner.read<float>(slots[i], operands[i].size()));
    return results;
  }
  size_t firstResult() const { return size_t(indexOf(Part::Before)); }
};

plan::StatePassing shapeOf(uint64_t chunks, uint64_t rows, uint64_t keys, uint64_t values, uint64_t positions) {
  plan::StatePassing passing;
  passing.set_chunks(chunks);
  passing.set_rows(rows);
  passing.set_keys(keys);
  passing.set_values(values);
  passing.set_positions(positions);
  passing.set_plus(!positions);
  return passing;
}

void expectStates(const plan::StatePassing &passing) {
  SCOPED_TRACE(passing.ShortDebugString());
  States states(passing);
  const std::vector<std::vector<float>> one = states.run(1);
  for (uint32_t threads : {2u, 5u})
    EXPECT_EQ(states.run(threads), one) << threads << " threads";
  states.compute();
  for (size_t i = 0; i < one.size(); ++i) {
    const std::vector<float> &want = states.operands[states.firstResult() + i];
    EXPECT_LT(relativeError(one[i], std::vector<double>(want.begin(), want.end())), 3e-6) << "result " << i;
  }
}

/// Each with everything else that there may be.
void expectAllStates(plan::StatePassing passing) {
  expectStates(passing);
  passing.set_past(true);
  passing.set_reverse(true);
  passing.set_decay_keys(1);
  passing.set_decay_parts(1);
  expectStates(passing);
  passing.set_plus(true);
  passing.set_decay_keys(passing.keys());
  passing.set_decay_parts(passing.values() % 3 ? passing.values() : 3);
  expectStates(passing);
}

TEST(RecurrenceConformance, StatesOfSums) {
  expectAllStates(shapeOf(5, 3, 4, 6, 0));
  expectAllStates(shapeOf(1, 1, 1, 1, 0));
  expectAllStates(shapeOf(3, 2, 128, 192, 0));
  expectAllStates(shapeOf(9, 7, 17, 33, 0));
}

TEST(RecurrenceConformance, StatesOfProducts) {
  expectAllStates(shapeOf(4, 3, 8, 6, 4));
  expectAllStates(shapeOf(1, 1, 1, 1, 1));
  expectAllStates(shapeOf(3, 2, 128, 128, 64));
  expectAllStates(shapeOf(2, 5, 70, 67, 33));
}

TEST(RecurrenceConformance, InversesOfUnitLowerMatrices) {
  for (uint64_t size : {1, 2, 5, 16, 31, 64})
    for (uint64_t count : {1, 9}) {
      SCOPED_TRACE(testing::Message() << count << " x " << size);
      std::vector<float> a = randomFloats(count * size * size, 3);
      for (float &x : a)
        x *= 0.3f;
      std::vector<double> want(a.size(), 0.0);
      for (uint64_t matrix = 0; matrix < count; ++matrix) {
        const float *from = &a[matrix * size * size];
        double *y = &want[matrix * size * size];
        for (uint64_t i = 0; i < size; ++i) {
          y[i * size + i] = 1;
          for (uint64_t j = 0; j < i; ++j)
            for (uint64_t c = 0; c <= j; ++c)
              y[i * size + c] -= double(from[i * size + j]) * y[j * size + c];
        }
      }
      std::vector<float> first;
      for (uint32_t threads : {1u, 2u, 5u}) {
        StepRunner runner;
        const uint32_t from = runner.slot(a), to = runner.scratch(a.size() * 4, false);
        plan::UnitLowerInverse &inverse = *runner.step("inverse", {from, to})->mutable_unit_lower_inverse();
        inverse.set_count(count);
        inverse.set_size(size);
        runner.useGpuKernels(inverse, {"gpu_unit_lower_inverse"});
        runner.runOnce(threads);
        const std::vector<float> got = runner.read<float>(to, a.size());
        first = threads == 1 ? got : first;
        EXPECT_EQ(got, first) << threads << " threads";
        EXPECT_LT(relativeError(got, want), 3e-6);
      }
    }
}

} // namespace
} // namespace ztc::test
