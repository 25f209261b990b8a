// The head and the loss against textbook loops in double: ignored targets, chunks with a rest, accumulation.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include "tests/conformance/ReferenceServiceKernels.h"
#include <cmath>
#include <numeric>

namespace ztc::test {
namespace {

struct LossCase {
  uint64_t tokens, width, vocabulary, chunk;
  plan::DataType type = plan::F32;
  uint64_t groups = 1; ///< losses, of the loss-only form
  bool weighted = false;
};

/// A logit as it is stored.
double roundedAs(double logit, plan::DataType type) {
  return type == plan::BF16 ? roundedTo<plan::BF16>(logit) : type == plan::F16 ? roundedTo<plan::F16>(logit) : logit;
}

struct LossReference {
  std::vector<float> hidden, head;
  std::vector<int32_t> targets;
  std::vector<float> weights; ///< all 1 where the loss is not weighted
  float scale = 0.125f;
  double loss = 0;
  std::vector<double> rowLosses; ///< (T)
  std::vector<double> dhidden, dhead;

  explicit LossReference(const LossCase &c)
      : hidden(randomFloats(c.tokens * c.width, 1)), head(randomFloats(c.vocabulary * c.width, 2, 0.3f)),
        rowLosses(c.tokens, 0), dhidden(c.tokens * c.width, 0), dhead(c.vocabulary * c.width, 0) {
    roundTo(hidden, c.type);
    roundTo(head, c.type);
    for (uint64_t t = 0; t < c.tokens; ++t)
      targets.push_back(t % 5 == 3 ? -100 : int32_t(t * 7919 % c.vocabulary));
    for (uint64_t t = 0; t < c.tokens; ++t)
      weights.push_back(c.weighted ? 0.25f * float(t % 7) : 1);
    for (uint64_t t = 0; t < c.tokens; ++t) {
      if (targets[t] < 0)
        continue;
      std::vector<double> p(c.vocabulary, 0);
      double sum = 0, atTarget = 0;
      for (uint64_t w = 0; w < c.vocabulary; ++w) {
        for (uint64_t d = 0; d < c.width; ++d)
          p[w] += double(hidden[t * c.width + d]) * head[w * c.width + d];
        p[w] = roundedAs(p[w], c.type);
        atTarget = w == uint64_t(targets[t]) ? p[w] : atTarget;
        sum += p[w] = std::exp(p[w]);
      }
      loss += rowLosses[t] = (std::log(sum) - atTarget) * weights[t];
      for (uint64_t w = 0; w < c.vocabulary; ++w) {
        double dlogit = (p[w] / sum - (w == uint64_t(targets[t]) ? 1 : 0)) * scale * weights[t];
        for (uint64_t d = 0; d < c.width; ++d) {
          dhidden[t * c.width + d] += dlogit * head[w * c.width + d];
          dhead[w * c.width + d] += dlogit * hidden[t * c.width + d];
        }
      }
    }
  }
};

struct LossResult {
  std::vector<float> loss, dhidden, dhead;
};

template <bool weighted> KernelFunction rowsKernel(plan::DataType type, bool training) {
  switch (type) {
  case plan::BF16:
    return training ? crossEntropyRows<true, plan::BF16, weighted> : crossEntropyRows<false, plan::BF16, weighted>;
  case plan::F16:
    return training ? crossEntropyRows<true, plan::F16, weighted> : crossEntropyRows<false, plan::F16, weighted>;
  default:
    return training ? crossEntropyRows<true, plan::F32, weighted> : crossEntropyRows<false, plan::F32, weighted>;
  }
}

/// Runs `microsteps` times; results start as rubbish that the first run must overwrite.
LossResult runLoss(const LossCase &c, const LossReference &reference, uint32_t threads, bool training,
                   plan::Accumulate accumulate, uint32_t microsteps, float start, bool isHeadFrozen = false) {
  StepRunner runner({{"rows", c.weighted ? rowsKernel<true>(c.type, training) : rowsKernel<false>(c.type, training)}});
  uint32_t hidden = typedSlot(runner, reference.hidden, c.type), head = typedSlot(runner, reference.head, c.type),
           targets = runner.slot(reference.targets);
  uint32_t loss = runner.slot(std::vector<float>(c.groups, start)),
           scale = runner.slot(std::vector<float>{reference.scale});
  uint32_t dhidden = typedSlot(runner, std::vector<float>(reference.hidden.size(), NAN), c.type);
  uint32_t dhead = runner.slot(std::vector<float>(reference.head.size(), start));
  uint32_t scratch =
      runner.scratch(onGpu() ? gpuLinearCrossEntropyScratchBytes(c.chunk, c.tokens, c.vocabulary, dataTypeBytes(c.type))
                             : linearCrossEntropyScratchBytes(c.chunk, c.vocabulary),
                     false);
  plan::Step *step = training ? runner.step("loss", {hidden, head, targets, loss, scratch, scale, dhidden, dhead})
                              : runner.step("loss", {hidden, head, targets, loss, scratch});
  if (isHeadFrozen)
    step->mutable_operands()->RemoveLast();
  if (c.type != plan::F32)
    step->add_operands()->set_slot(
        onGpu() ? runner.scratch(4096, false)
                : runner.scratch(linearCrossEntropyPanelBytes(c.chunk, c.width, c.vocabulary), true));
  if (c.weighted)
    step->add_operands()->set_slot(runner.slot(reference.weights));
  plan::LinearCrossEntropy &call = *step->mutable_linear_cross_entropy();
  call.set_weighted(c.weighted);
  call.set_tokens(c.tokens);
  call.set_width(c.width);
  call.set_vocabulary(c.vocabulary);
  call.set_chunk(c.chunk);
  call.set_training(training);
  call.set_accumulate(accumulate);
  call.set_loss_accumulate(accumulate);
  call.set_rows_kernel(0);
  call.set_type(c.type);
  call.set_gpu_chunk(c.chunk);
  call.set_groups(c.groups);
  const uint64_t lanes = c.type == plan::F32 ? 4 : 8;
  runner.useGpuKernels(call, {std::string(training ? "gpu_cross_entropy_rows" : "gpu_cross_entropy_rows_loss") +
                                  (c.weighted ? "_weighted" : "") + gpuSuffix(c.type) + "_" + std::to_string(lanes) +
                                  (c.vocabulary % lanes ? "_cut" : ""),
                              "gpu_loss_sum"});
  Status status = runner.prepare(threads);
  EXPECT_TRUE(status.isOk()) << status.message();
  for (uint32_t microstep = 0; status.isOk() && microstep < microsteps; ++microstep)
    status = runner.run(microstep);
  EXPECT_TRUE(status.isOk()) << status.message();
  return {runner.read(loss, c.groups), readTyped(runner, dhidden, reference.hidden.size(), c.type),
          runner.read(dhead, reference.head.size())};
}

void expectLoss(const LossCase &c) {
  SCOPED_TRACE(testing::Message() << c.tokens << " tokens, width " << c.width << ", vocabulary " << c.vocabulary
                                  << ", chunk " << c.chunk << ", " << plan::DataType_Name(c.type));
  LossReference reference(c);
  LossResult one = runLoss(c, reference, 1, true, plan::OVERWRITE, 1, NAN);
  EXPECT_NEAR(one.loss[0], reference.loss, 1e-6 * reference.loss);
  // The logits are rounded as the reference's are, their cotangents beside it, and dhidden.
  const double rounding = 2 * roundingError(c.type);
  EXPECT_LT(relativeError(one.dhidden, reference.dhidden), 5e-6 + rounding);
  EXPECT_LT(relativeError(one.dhead, reference.dhead), 5e-6 + rounding);
  LossResult two = runLoss(c, reference, 2, true, plan::OVERWRITE, 1, NAN);
  EXPECT_TRUE(sameBits(one.loss, two.loss) && sameBits(one.dhidden, two.dhidden) && sameBits(one.dhead, two.dhead));
  EXPECT_TRUE(sameBits(one.loss, runLoss(c, reference, 2, false, plan::OVERWRITE, 1, NAN).loss))
      << "the loss-only form";
  LossResult frozen = runLoss(c, reference, 2, true, plan::OVERWRITE, 1, NAN, /*isHeadFrozen=*/true);
  EXPECT_TRUE(sameBits(one.loss, frozen.loss) && sameBits(one.dhidden, frozen.dhidden)) << "with a frozen head";
  EXPECT_TRUE(std::isnan(frozen.dhead[0])) << "which has no cotangent";
}

TEST(LinearCrossEntropyConformance, WholeChunks) {
  expectLoss({64, 48, 256, 16});
}
TEST(LinearCrossEntropyConformance, ChunkWithRest) {
  expectLoss({45, 32, 301, 16});
}
TEST(LinearCrossEntropyConformance, OneChunk) {
  expectLoss({20, 33, 127, 64});
}

TEST(LinearCrossEntropyConformance, NarrowTypes) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    expectLoss({64, 48, 256, 16, type});
    expectLoss({45, 32, 301, 16, type});
    expectLoss({20, 33, 600, 64, type});
  }
}

TEST(LinearCrossEntropyConformance, WeightsOfRows) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16}) {
    expectLoss({45, 32, 301, 16, type, 1, /*weighted=*/true});
    expectLoss({64, 48, 256, 64, type, 1, /*weighted=*/true});
  }
}

void expectAccumulation(plan::DataType type) {
  LossCase c{37, 32, 200, 16, type};
  LossReference reference(c);
  LossResult first = runLoss(c, reference, 2, true, plan::ADD_UNLESS_FIRST, 1, NAN);
  EXPECT_NEAR(first.loss[0], reference.loss, 1e-6 * reference.loss);
  LossResult three = runLoss(c, reference, 2, true, plan::ADD_UNLESS_FIRST, 3, NAN);
  EXPECT_NEAR(three.loss[0], 3 * reference.loss, 3e-6 * reference.loss);
  LossResult added = runLoss(c, reference, 2, true, plan::ADD, 1, 2.0f);
  EXPECT_NEAR(added.loss[0], reference.loss + 2, 1e-6 * reference.loss);
  std::vector<double> wantThree(reference.dhead), wantAdded(reference.dhead);
  for (size_t i = 0; i < reference.dhead.size(); ++i) {
    wantThree[i] *= 3;
    wantAdded[i] += 2;
  }
  const double rounding = 2 * roundingError(type);
  EXPECT_LT(relativeError(three.dhead, wantThree), 5e-6 + rounding);
  EXPECT_LT(relativeError(added.dhead, wantAdded), 5e-6 + rounding);
  EXPECT_LT(relativeError(three.dhidden, reference.dhidden), 5e-6 + rounding) << "dhidden is of one micro-step";
}

TEST(LinearCrossEntropyConformance, Accumulates) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16})
    expectAccumulation(type);
}

TEST(LinearCrossEntropyConformance, GroupsOfRows) {
  // A group ends within a chunk, and one chunk holds several.
  for (const LossCase &c : {LossCase{48, 32, 200, 16, plan::F32, 4}, LossCase{45, 32, 301, 16, plan::F32, 15},
                            LossCase{48, 32, 200, 20, plan::BF16, 3}}) {
    const LossReference reference(c);
    const LossResult one = runLoss(c, reference, 1, false, plan::OVERWRITE, 1, NAN);
    const uint64_t rows = c.tokens / c.groups;
    for (uint64_t group = 0; group < c.groups; ++group) {
      const auto first = reference.rowLosses.begin() + int64_t(group * rows);
      const double expected = std::accumulate(first, first + int64_t(rows), 0.0);
      EXPECT_NEAR(one.loss[group], expected, 1e-6 * std::max(1.0, expected)) << "group " << group;
    }
    EXPECT_TRUE(sameBits(one.loss, runLoss(c, reference, 2, false, plan::OVERWRITE, 1, NAN).loss));
    // The rows of a group alone count as much as among others.
    LossReference alone = reference;
    std::fill(alone.targets.begin() + int64_t(rows), alone.targets.end(), -100);
    LossCase sum = c;
    sum.groups = 1;
    EXPECT_EQ(runLoss(sum, alone, 1, false, plan::OVERWRITE, 1, NAN).loss[0], one.loss[0]);
    const LossResult added = runLoss(c, reference, 2, false, plan::ADD, 1, 2.0f);
    for (uint64_t group = 0; group < c.groups; ++group)
      EXPECT_NEAR(added.loss[group], one.loss[group] + 2, 1e-6 * (one.loss[group] + 2));
  }
}

TEST(LinearCrossEntropyConformance, AllIgnored) {
  LossCase c{8, 16, 32, 4};
  LossReference reference(c);
  std::fill(reference.targets.begin(), reference.targets.end(), -100);
  LossResult result = runLoss(c, reference, 2, true, plan::OVERWRITE, 1, NAN);
  EXPECT_EQ(result.loss[0], 0);
  EXPECT_EQ(std::count(result.dhead.begin(), result.dhead.end(), 0.0f), std::ptrdiff_t(result.dhead.size()));
}

} // namespace
} // namespace ztc::test
