// Attention and its gradient against textbook loops in double.
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include "tests/conformance/ReferenceServiceKernels.h"

namespace ztc::test {
namespace {

struct AttentionCase {
  uint64_t batch, seq, heads, kvHeads, dim, block;
  bool causal = true;
  uint64_t window = 0;
  plan::DataType type = plan::F32;
};

/// Inputs, and the results in double.
struct AttentionReference {
  std::vector<float> q, k, v, dout;
  std::vector<double> out, lse, dq, dk, dv;

  explicit AttentionReference(const AttentionCase &c) {
    uint64_t queries = c.batch * c.seq * c.heads * c.dim, keys = c.batch * c.seq * c.kvHeads * c.dim;
    q = randomFloats(queries, 1);
    k = randomFloats(keys, 2);
    v = randomFloats(keys, 3);
    dout = randomFloats(queries, 4);
    for (std::vector<float> *tensor : {&q, &k, &v, &dout})
      roundTo(*tensor, c.type);
    out.assign(queries, 0);
    dq.assign(queries, 0);
    dk.assign(keys, 0);
    dv.assign(keys, 0);
    lse.assign(c.batch * c.heads * c.seq, 0);
    for (uint64_t b = 0; b < c.batch; ++b)
      for (uint64_t h = 0; h < c.heads; ++h)
        for (uint64_t i = 0; i < c.seq; ++i)
          row(c, b, h, i);
  }

  void row(const AttentionCase &c, uint64_t b, uint64_t h, uint64_t i) {
    auto queryAt = [&](uint64_t position) { return ((b * c.seq + position) * c.heads + h) * c.dim; };
    auto keyAt = [&](uint64_t position) {
      return ((b * c.seq + position) * c.kvHeads + h / (c.heads / c.kvHeads)) * c.dim;
    };
    uint64_t first = c.window && i + 1 > c.window ? i + 1 - c.window : 0, end = c.causal ? i + 1 : c.seq;
    std::vector<double> p(c.seq, 0);
    double sum = 0, delta = 0;
    for (uint64_t j = first; j < end; ++j) {
      double score = 0;
      for (uint64_t d = 0; d < c.dim; ++d)
        score += double(q[queryAt(i) + d]) * k[keyAt(j) + d];
      p[j] = std::exp(score * kReferenceScale);
      sum += p[j];
    }
    lse[(b * c.heads + h) * c.seq + i] = std::log(sum);
    for (uint64_t j = first; j < end; ++j) {
      p[j] /= sum;
      for (uint64_t d = 0; d < c.dim; ++d)
        out[queryAt(i) + d] += p[j] * v[keyAt(j) + d];
    }
    for (uint64_t d = 0; d < c.dim; ++d)
      delta += out[queryAt(i) + d] * dout[queryAt(i) + d];
    for (uint64_t j = first; j < end; ++j) {
      double dp = 0;
      for (uint64_t d = 0; d < c.dim; ++d)
        dp += double(dout[queryAt(i) + d]) * v[keyAt(j) + d];
      double ds = p[j] * (dp - delta) * kReferenceScale;
      for (uint64_t d = 0; d < c.dim; ++d) {
        dq[queryAt(i) + d] += ds * k[keyAt(j) + d];
        dk[keyAt(j) + d] += ds * q[queryAt(i) + d];
        dv[keyAt(j) + d] += p[j] * dout[queryAt(i) + d];
      }
    }
  }
};

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
}

template <plan::DataType type> StepRunner makeRunner(bool causal) {
  return StepRunner({{"softmax", causal ? attentionSoftmax<true, type> : attentionSoftmax<false, type>},
                     {"softmax_grad", causal ? attentionSoftmaxGrad<true, type> : attentionSoftmaxGrad<false, type>},
                     {"row_dot", rowDot}});
}

/// Forward, then the gradient from the forward's own results.
AttentionResult runAttention(const AttentionCase &c, const AttentionReference &reference, uint32_t threads) {
  StepRunner runner = c.type == plan::BF16  ? makeRunner<plan::BF16>(c.causal)
                      : c.type == plan::F16 ? makeRunner<plan::F16>(c.causal)
                                            : makeRunner<plan::F32>(c.causal);
  const auto tensor = [&](const std::vector<float> &values) { return typedSlot(runner, values, c.type); };
  uint32_t q = tensor(reference.q), k = tensor(reference.k), v = tensor(reference.v), dout = tensor(reference.dout);
  // Results start as rubbish: whatever a step leaves unwritten shows.
  std::vector<float> rubbish(reference.q.size(), NAN), rubbishKeys(reference.k.size(), NAN);
  uint32_t out = tensor(rubbish), dq = tensor(rubbish), dk = tensor(rubbishKeys), dv = tensor(rubbishKeys);
  uint32_t lse = runner.slot(std::vector<float>(reference.lse.size(), NAN));
  const auto scratchFor = [&](bool grad) {
    const uint64_t block = std::min(c.block, c.seq);
    return runner.scratch(c.type == plan::F32 ? attentionScratchBytes(c.seq, block, grad)
                                              : narrowAttentionScratchBytes(c.seq, c.dim, block, grad),
                          true);
  };
  uint32_t scratch = scratchFor(false), gradScratch = scratchFor(true);
  plan::Attention &forward = *runner.step("attention", {q, k, v, out, lse, scratch})->mutable_attention();
  setShape(forward, c);
  forward.set_softmax_kernel(runner.kernel("softmax"));
  plan::Attention &grad =
      *runner.step("attention grad", {q, k, v, out, lse, dout, dq, dk, dv, gradScratch})->mutable_attention();
  setShape(grad, c);
  grad.set_grad(true);
  grad.set_softmax_grad_kernel(runner.kernel("softmax_grad"));
  grad.set_row_dot_kernel(runner.kernel("row_dot"));
  runner.runOnce(threads);
  size_t queries = reference.q.size(), keys = reference.k.size();
  const auto result = [&](uint32_t slot, size_t count) { return readTyped(runner, slot, count, c.type); };
  return {result(out, queries), runner.read(lse, reference.lse.size()), result(dq, queries), result(dk, keys),
          result(dv, keys)};
}

void expectAttention(const AttentionCase &c) {
  SCOPED_TRACE(testing::Message() << "B" << c.batch << " S" << c.seq << " H" << c.heads << "/" << c.kvHeads << " D"
                                  << c.dim << " block " << c.block << " window " << c.window << " "
                                  << plan::DataType_Name(c.type));
  AttentionReference reference(c);
  AttentionResult one = runAttention(c, reference, 1);
  // P, dS and the results are rounded: several times what one rounding may cost.
  const double rounding = 2 * roundingError(c.type);
  EXPECT_LT(relativeError(one.out, reference.out), 2e-6 + rounding);
  EXPECT_LT(relativeError(one.lse, reference.lse), 2e-6);
  EXPECT_LT(relativeError(one.dq, reference.dq), 5e-6 + rounding);
  EXPECT_LT(relativeError(one.dk, reference.dk), 5e-6 + rounding);
  EXPECT_LT(relativeError(one.dv, reference.dv), 5e-6 + rounding);
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
TEST(AttentionConformance, NotCausal) {
  expectAttention({1, 65, 2, 2, 16, 32, false});
}

} // namespace
} // namespace ztc::test
