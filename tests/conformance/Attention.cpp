// Steps of attention and its gradient.
#include "runtime/Format/CudnnAttention.h"
#include "tests/conformance/AttentionReference.h"
#include "tests/conformance/NarrowValues.h"
#include "tests/conformance/ReferenceServiceKernels.h"
#include <gmock/gmock.h>

namespace ztc::test {
namespace {

struct AttentionResult {
  std::vector<float> out, lse, dq, dk, dv;
};

void setShape(plan::Attention &attention, const AttentionCase &c) {
  attention.set_batch(c.batch);
  attention.set_seq(c.seq);
  attention.set_heads(c.heads);
  attention.set_kv_heads(c.kvHeads);
  attention.set_head_dim(c.dim);
  attention.set_scale(kReferenceScale);
  attention.set_causal(c.causal);
  attention.set_window(c.window);
  attention.set_block(c.block);
  attention.set_type(c.type);
  attention.set_packed(!c.documents.empty());
  attention.set_softcap(c.softcap);
}

template <bool causal, plan::DataType type, bool capped> StepRunner makeRunner() {
  return StepRunner({{"softmax", attentionSoftmax<causal, type, capped>},
                     {"softmax_grad", attentionSoftmaxGrad<causal, type, capped>},
                     {"row_dot", rowDot}});
}
template <plan::DataType type> StepRunner makeRunner(const AttentionCase &c) {
  if (c.softcap != 0)
    return c.causal ? makeRunner<true, type, true>() : makeRunner<false, type, true>();
  return c.causal ? makeRunner<true, type, false>() : makeRunner<false, type, false>();
}

AttentionExtras extrasOf(const AttentionCase &c) {
  return {!c.documents.empty(), c.softcap != 0};
}

uint64_t gpuScratchBytes(const AttentionCase &c, bool grad) {
  return gpuAttentionScratchBytes(c.batch, c.seq, c.heads, c.kvHeads, c.dim, c.type != plan::F32, grad, extrasOf(c));
}

/// Whether the gradient's workspace has room for the scores of some part of it.
bool keepsScores(const AttentionCase &c) {
  const uint64_t smallest = cudnnScoresWorkspaceBytes(1, c.seq, c.heads / c.kvHeads, 1, c.dim);
  return c.documents.empty() && smallest <= gpuScratchBytes(c, /*grad=*/true);
}

/// ZTC_TEST_CUDNN=1: whatever cuDNN takes goes to it, and for the rest there is a reason.
void expectWays(const AttentionCase &c, const std::string &used) {
  const char *version = std::getenv("ZTC_STAND_IN_CUDNN");
  const bool inParts = version && std::atoi(version) < 92500;
  const uint64_t most = cudnnMostDocuments(c.seq);
  if (const char *obstacle = cudnnAttentionObstacle(c.type != plan::F32, c.dim, extrasOf(c)))
    EXPECT_THAT(used, testing::HasSubstr(std::string("attention and its gradient by own kernels (") + obstacle));
  else if (!c.documents.empty() && c.bounds().most > most)
    EXPECT_THAT(used, testing::HasSubstr("attention and its gradient by own kernels (a row has up to " +
                                         std::to_string(c.bounds().most) + " documents, the plan reserves for " +
                                         std::to_string(most)));
  else if (!c.documents.empty() && inParts)
    EXPECT_THAT(used, testing::MatchesRegex(".*attention by cuDNN 9.*gradient by own kernels .*of workspace here.*"));
  else if (inParts)
    EXPECT_THAT(used, testing::MatchesRegex(".*gradient by cuDNN [0-9.]+ in [0-9]+ parts.*"));
  else if (keepsScores(c))
    EXPECT_THAT(used, testing::HasSubstr("attention by cuDNN 9.26.0, attention gradient by cuDNN 9.26.0 with scores"));
  else
    EXPECT_THAT(used, testing::HasSubstr("attention and its gradient by cuDNN 9.26.0"));
}

/// Forward, then the gradient from the forward's own results.
AttentionResult runAttention(const AttentionCase &c, const AttentionReference &reference, uint32_t threads) {
  StepRunner runner = c.type == plan::BF16  ? makeRunner<plan::BF16>(c)
                      : c.type == plan::F16 ? makeRunner<plan::F16>(c)
                                            : makeRunner<plan::F32>(c);
  const auto tensor = [&](const std::vector<float> &values) { return typedSlot(runner, values, c.type); };
  uint32_t q = tensor(reference.q), k = tensor(reference.k), v = tensor(reference.v), dout = tensor(reference.dout);
  // Results start as rubbish: whatever a step leaves unwritten shows.
  std::vector<float> rubbish(reference.q.size(), NAN), rubbishKeys(reference.k.size(), NAN);
  uint32_t out = tensor(rubbish), dq = tensor(rubbish), dk = tensor(rubbishKeys), dv = tensor(rubbishKeys);
  uint32_t lse = runner.slot(std::vector<float>(reference.lse.size(), NAN));
  const auto scratchFor = [&](bool grad) {
    const uint64_t block = std::min(c.block, c.seq);
    if (onGpu())
      return runner.scratch(gpuScratchBytes(c, grad), true);
    return runner.scratch(c.type == plan::F32 ? attentionScratchBytes(c.seq, block, grad)
                                              : narrowAttentionScratchBytes(c.seq, c.dim, block, grad),
                          true);
  };
  uint32_t scratch = scratchFor(false), gradScratch = scratchFor(true);
  const auto addStep = [&](const char *name, std::initializer_list<uint32_t> slots) -> plan::Attention & {
    plan::Step *step = runner.step(name, slots);
    if (!c.documents.empty())
      step->add_operands()->set_slot(runner.slot(c.starts()));
    return *step->mutable_attention();
  };
  plan::Attention &forward = addStep("attention", {q, k, v, out, lse, scratch});
  setShape(forward, c);
  forward.set_softmax_kernel(runner.kernel("softmax"));
  plan::Attention &grad = addStep("attention grad", {q, k, v, out, lse, dout, dq, dk, dv, gradScratch});
  setShape(grad, c);
  grad.set_grad(true);
  grad.set_softmax_grad_kernel(runner.kernel("softmax_grad"));
  grad.set_row_dot_kernel(runner.kernel("row_dot"));
  const std::string visible = std::string(c.window   ? "_window"
                                          : c.causal ? "_causal"
                                                     : "") +
                              (c.documents.empty() ? "" : "_packed") + (c.softcap != 0 ? "_softcap" : "");
  const std::string heads = gpuSuffix(c.type) + "_" + std::to_string(c.dim), form = heads + visible;
  std::vector<std::string> kernels{"gpu_attention" + form},
      gradKernels{"gpu_attention_delta" + heads, "gpu_attention_grad_keys" + form, "gpu_attention_grad_queries" + form};
  if (!c.documents.empty())
    runner.bound(c.bounds());
  if (hasDocumentTable(c.type != plan::F32, c.dim, extrasOf(c)))
    for (auto *all : {&kernels, &gradKernels})
      all->push_back("gpu_document_table");
  runner.useGpuKernels(forward, kernels);
  runner.useGpuKernels(grad, gradKernels);
  runner.runOnce(threads);
  if (const char *wanted = std::getenv("ZTC_TEST_CUDNN"); wanted && *wanted == '1')
    expectWays(c, runner.device().description());
  size_t queries = reference.q.size(), keys = reference.k.size();
  const auto result = [&](uint32_t slot, size_t count) { return readTyped(runner, slot, count, c.type); };
  return {result(out, queries), runner.read(lse, reference.lse.size()), result(dq, queries), result(dk, keys),
          result(dv, keys)};
}

void expectAttention(const AttentionCase &c) {
  SCOPED_TRACE(testing::Message() << "B" << c.batch << " S" << c.seq << " H" << c.heads << "/" << c.kvHeads << " D"
                                  << c.dim << " block " << c.block << " window " << c.window << " "
                                  << plan::DataType_Name(c.type) << " cap " << c.softcap);
  AttentionReference reference(c);
  AttentionResult one = runAttention(c, reference, 1);
  // P, dS and the results are rounded: several times what one rounding may cost.
  const double rounding = 2 * roundingError(c.type);
  // In the gradient four roundings follow one another: P, out (in delta), dS, the result. With a GPU's P, rounded
  // before it is divided by its sum, one of these inputs costs 2.7 times one, computed in double with the same rounding
  // points.
  const double gradRounding = onGpu() ? 3 * roundingError(c.type) : rounding;
  EXPECT_LT(relativeError(one.out, reference.out), 2e-6 + rounding);
  EXPECT_LT(relativeError(one.lse, reference.lse), 2e-6);
  EXPECT_LT(relativeError(one.dq, reference.dq), 5e-6 + gradRounding);
  EXPECT_LT(relativeError(one.dk, reference.dk), 5e-6 + gradRounding);
  EXPECT_LT(relativeError(one.dv, reference.dv), 5e-6 + gradRounding);
  for (uint32_t threads : {2u, 3u}) {
    AttentionResult more = runAttention(c, reference, threads);
    EXPECT_TRUE(sameBits(one.out, more.out) && sameBits(one.lse, more.lse)) << threads << " threads";
    EXPECT_TRUE(sameBits(one.dq, more.dq) && sameBits(one.dk, more.dk) && sameBits(one.dv, more.dv))
        << threads << " threads";
  }
}

TEST(AttentionConformance, Causal) {
  expectAttention({2, 128, 4, 4, 32, 32});
}
TEST(AttentionConformance, GroupedHeads) {
  expectAttention({1, 96, 6, 2, 16, 64});
}
TEST(AttentionConformance, OddSequence) {
  expectAttention({1, 77, 3, 1, 24, 16});
}
TEST(AttentionConformance, BlockLongerThanSequence) {
  expectAttention({2, 13, 2, 2, 8, 128});
}
TEST(AttentionConformance, Window) {
  expectAttention({1, 300, 2, 1, 16, 64, true, 100});
  expectAttention({1, 40, 2, 2, 8, 16, true, 2});
}
TEST(AttentionConformance, NarrowTypes) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    expectAttention({2, 96, 4, 4, 32, 32, true, 0, type});
    expectAttention({1, 96, 6, 2, 16, 64, true, 0, type});
    expectAttention({1, 77, 3, 1, 24, 16, true, 0, type});
    expectAttention({2, 13, 2, 2, 8, 128, true, 0, type});
    expectAttention({1, 200, 2, 1, 16, 64, true, 100, type});
    expectAttention({1, 65, 2, 2, 16, 32, false, 0, type});
  }
}
/// The workspace is that of a plan without room for scores: before cuDNN 9.25, and where scores are kept later, not
/// enough for the whole, but for some of its parts.
TEST(AttentionConformance, GradientInParts) {
  expectAttention({3, 96, 8, 4, 32, 32, true, 0, plan::BF16});
  expectAttention({1, 128, 12, 6, 32, 32, true, 0, plan::BF16});
  expectAttention({2, 128, 4, 2, 32, 32, true, 0, plan::F16});
}
TEST(AttentionConformance, Documents) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16}) {
    expectAttention({2, 100, 4, 2, 16, 32, true, 0, type, {37, 1, 40}});
    expectAttention({1, 200, 2, 1, 16, 64, true, 33, type, {64, 128}});
    expectAttention({3, 70, 2, 2, 16, 64, true, 0, type, {9, 1, 1, 30, 2, 8, 3}});
    expectAttention({1, 70, 2, 2, 16, 64, true, 0, type, std::vector<uint64_t>(20, 3)}); // more than plans reserve for
  }
}
/// Scores reach to about twice the smaller cap.
TEST(AttentionConformance, Softcap) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16}) {
    expectAttention({1, 96, 6, 2, 16, 64, true, 0, type, {}, 0.5});
    expectAttention({1, 77, 2, 2, 16, 32, false, 0, type, {}, 50});
    expectAttention({2, 100, 4, 2, 16, 32, true, 33, type, {37, 1, 40}, 0.5});
  }
}
/// A document in a packed row has the bits that it has alone.
TEST(AttentionConformance, DocumentsAsAlone) {
  if (onGpu())
    GTEST_SKIP() << "a GPU's tiles begin where the row does";
  const AttentionCase row{1, 90, 4, 2, 16, 32, true, 0, plan::F32, {50}}, alone{1, 40, 4, 2, 16, 32};
  AttentionReference packed(row), single(alone);
  const size_t first = 50 * 4 * 16, firstKey = 50 * 2 * 16;
  const auto tail = [](const std::vector<float> &all, size_t from) {
    return std::vector<float>(all.begin() + int64_t(from), all.end());
  };
  single.q = tail(packed.q, first);
  single.k = tail(packed.k, firstKey);
  single.v = tail(packed.v, firstKey);
  single.dout = tail(packed.dout, first);
  const AttentionResult together = runAttention(row, packed, 2), apart = runAttention(alone, single, 1);
  EXPECT_TRUE(sameBits(tail(together.out, first), apart.out));
  EXPECT_TRUE(sameBits(tail(together.dq, first), apart.dq));
  EXPECT_TRUE(sameBits(tail(together.dk, firstKey), apart.dk));
  EXPECT_TRUE(sameBits(tail(together.dv, firstKey), apart.dv));
}
TEST(AttentionConformance, NotCausal) {
  expectAttention({1, 65, 2, 2, 16, 32, false});
}

} // namespace
} // namespace ztc::test
