// Service kernels against plain loops in double.
#include "KernelHarness.h"
#include "runtime/Core/FloatTypes.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace ztc;
using namespace ztc::test;

namespace ztc::test::service {
namespace {
mlir::Type f32() {
  return mlir::Float32Type::get(&kernelContext());
}

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
  std::vector<float> values(count);
  for (float &value : values)
    value = uniform(generator);
  return values;
}

/// A library with one service kernel in it.
struct Service {
  KernelModule module{kernelContext()};
  KernelDescription description;
  std::unique_ptr<LoadedKernels> image;

  template <typename Add> explicit Service(Add add) : description(add(module)) {
    auto images = module.emit({"x86-64-v3"});
    EXPECT_TRUE(succeeded(images));
    image = std::make_unique<LoadedKernels>(images->front());
  }
  void run(std::vector<void *> buffers, std::vector<int64_t> scalars, int64_t begin, int64_t end) {
    if (KernelFunction kernel = image->find(description.name))
      kernel(buffers.data(), scalars.data(), begin, end);
  }
};

/// Rows of attention scores: (first, rows, columns, ld, window).
struct Block {
  int64_t first, rows, columns, ld, window;
  bool causal;
  int64_t low(int64_t r) const { return causal && window ? std::max<int64_t>(0, first + r - window + 1) : 0; }
  int64_t high(int64_t r) const { return causal ? std::min(first + r + 1, columns) : columns; }
  int64_t padded() const { return (columns + 15) / 16 * 16; }
};
const Block kBlocks[] = {{0, 9, 9, 16, 0, true},       {64, 20, 84, 96, 0, true},  {130, 17, 147, 160, 70, true},
                         {200, 10, 210, 224, 5, true}, {40, 33, 73, 80, 64, true}, {0, 6, 131, 160, 0, false},
                         {0, 3, 1, 16, 0, false}};

/// Columns that no row sees are not written by products: they may hold anything.
void spoilInvisible(const Block &block, std::vector<float> &scores) {
  for (int64_t r = 0; r < block.rows; ++r)
    for (int64_t c = 0; c < block.padded(); ++c)
      if (c < block.low(r) || c >= block.high(r))
        scores[r * block.ld + c] = c % 2 ? std::nanf("") : INFINITY;
}
} // namespace

TEST(CodegenService, AttentionSoftmax) {
  for (const Block &block : kBlocks) {
    Service service([&](KernelModule &module) { return module.addAttentionSoftmax(block.causal, f32()); });
    std::vector<float> scores = randomFloats(block.rows * block.ld, 1), lse(block.rows);
    spoilInvisible(block, scores);
    const std::vector<float> original = scores;
    std::vector<int64_t> scalars{block.first, block.ld, block.columns, block.window};
    service.run({scores.data(), lse.data()}, scalars, 2, block.rows);
    service.run({scores.data(), lse.data()}, scalars, 0, 2);
    for (int64_t r = 0; r < block.rows; ++r) {
      double sum = 0;
      for (int64_t c = block.low(r); c < block.high(r); ++c)
        sum += std::exp(double(original[r * block.ld + c]));
      EXPECT_NEAR(lse[r], std::log(sum), 1e-6);
      for (int64_t c = 0; c < block.ld; ++c) {
        bool visible = c >= block.low(r) && c < block.high(r);
        float untouched = original[r * block.ld + c];
        double want = visible ? std::exp(double(untouched)) / sum : c < block.padded() ? 0.0 : untouched;
        ASSERT_NEAR(scores[r * block.ld + c], want, 1e-6) << r << " " << c;
      }
    }
  }
}

TEST(CodegenService, AttentionSoftmaxGrad) {
  constexpr double scale = 0.125;
  for (const Block &block : kBlocks) {
    Service service([&](KernelModule &module) { return module.addAttentionSoftmaxGrad(scale, block.causal, f32()); });
    std::vector<float> scores = randomFloats(block.rows * block.ld, 1), dp = randomFloats(scores.size(), 2);
    spoilInvisible(block, scores);
    spoilInvisible(block, dp);
    std::vector<float> lse = randomFloats(block.rows, 3), delta = randomFloats(block.rows, 4), s = scores, d = dp;
    service.run({scores.data(), dp.data(), lse.data(), delta.data()},
                {block.first, block.ld, block.columns, block.window}, 0, block.rows);
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t c = 0; c < block.ld; ++c) {
        int64_t at = r * block.ld + c;
        bool visible = c >= block.low(r) && c < block.high(r), untouched = c >= block.padded();
        double p = visible ? std::exp(double(s[at]) - lse[r]) : 0.0;
        double ds = visible ? p * (double(d[at]) - delta[r]) * scale : 0.0;
        ASSERT_NEAR(scores[at], untouched ? s[at] : p, 2e-6 * (1 + p));
        ASSERT_NEAR(dp[at], untouched ? d[at] : ds, 2e-6 * (1 + 6 * p));
      }
  }
}

/// Scores that arrive divided by their cap.
TEST(CodegenService, AttentionSoftmaxOfCappedScores) {
  constexpr double scale = 0.125, cap = 2.5;
  for (const Block &block : kBlocks) {
    Service forward([&](KernelModule &module) { return module.addAttentionSoftmax(block.causal, f32(), true); });
    Service grad(
        [&](KernelModule &module) { return module.addAttentionSoftmaxGrad(scale, block.causal, f32(), true); });
    std::vector<float> scores = randomFloats(block.rows * block.ld, 1), dp = randomFloats(scores.size(), 2);
    spoilInvisible(block, scores);
    spoilInvisible(block, dp);
    std::vector<float> lse(block.rows), delta = randomFloats(block.rows, 4), p = scores, s = scores, ds = dp;
    std::vector<int64_t> scalars{block.first, block.ld, block.columns, block.window,
                                 std::bit_cast<int32_t>(float(cap))};
    forward.run({p.data(), lse.data()}, scalars, 0, block.rows);
    grad.run({s.data(), ds.data(), lse.data(), delta.data()}, scalars, 0, block.rows);
    for (int64_t r = 0; r < block.rows; ++r) {
      auto bent = [&](int64_t c) { return std::tanh(double(scores[r * block.ld + c])); };
      double sum = 0;
      for (int64_t c = block.low(r); c < block.high(r); ++c)
        sum += std::exp(cap * bent(c));
      EXPECT_NEAR(lse[r], std::log(sum), 1e-6);
      for (int64_t c = 0; c < block.padded(); ++c) {
        const int64_t at = r * block.ld + c;
        const bool visible = c >= block.low(r) && c < block.high(r);
        const double want = visible ? std::exp(cap * bent(c)) / sum : 0;
        const double cotangent = visible ? want * (double(dp[at]) - delta[r]) * scale * (1 - bent(c) * bent(c)) : 0;
        ASSERT_NEAR(p[at], want, 1e-6) << r << " " << c;
        ASSERT_NEAR(s[at], want, 2e-6) << r << " " << c;
        ASSERT_NEAR(ds[at], cotangent, 2e-6) << r << " " << c;
      }
    }
  }
}

TEST(CodegenService, RowDot) {
  Service service([](KernelModule &module) { return module.addRowDot(); });
  for (int64_t count : {1, 48, 64, 127, 200}) {
    int64_t rows = 5, lda = count + 3, ldb = count + 1;
    std::vector<float> a = randomFloats(rows * lda, 1), b = randomFloats(rows * ldb, 2), out(rows);
    service.run({a.data(), b.data(), out.data()}, {lda, ldb, count}, 0, rows);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < count; ++c)
        sum += double(a[r * lda + c]) * b[r * ldb + c];
      EXPECT_NEAR(out[r], sum, 1e-5);
    }
  }
}

TEST(CodegenService, CrossEntropyRows) {
  Service training([](KernelModule &module) { return module.addCrossEntropyRows(true, f32()); });
  Service evaluation([](KernelModule &module) { return module.addCrossEntropyRows(false, f32()); });
  for (int64_t columns : {3, 64, 300}) {
    int64_t rows = 6, ld = columns + 5;
    std::vector<float> logits = randomFloats(rows * ld, 1), kept = logits, loss(rows), evaluated(rows);
    std::vector<int32_t> targets{0, 2, -100, 1, -1, int32_t(columns - 1)};
    float scale = 0.25f;
    evaluation.run({kept.data(), targets.data(), evaluated.data()}, {ld, columns}, 0, rows);
    EXPECT_EQ(kept, logits);
    training.run({logits.data(), targets.data(), &scale, loss.data()}, {ld, columns}, 0, rows);
    EXPECT_EQ(loss, evaluated);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        sum += std::exp(double(kept[r * ld + c]));
      bool counted = targets[r] >= 0;
      EXPECT_NEAR(loss[r], counted ? std::log(sum) - kept[r * ld + targets[r]] : 0.0, 2e-6);
      for (int64_t c = 0; c < columns; ++c) {
        double want = counted ? (std::exp(double(kept[r * ld + c])) / sum - (c == targets[r])) * scale : 0.0;
        ASSERT_NEAR(logits[r * ld + c], want, 1e-6);
      }
      EXPECT_EQ(logits[r * ld + columns], kept[r * ld + columns]);
    }
  }
}

/// Logits that are scaled and capped: losses, and cotangents of the products that they are made of.
TEST(CodegenService, CrossEntropyRowsOfBentLogits) {
  for (LogitForm form : {LogitForm{0.5, 0.0}, LogitForm{1.0, 3.0}, LogitForm{-1.5, 2.0}}) {
    Service training([&](KernelModule &module) { return module.addCrossEntropyRows(true, f32(), form); });
    Service evaluation([&](KernelModule &module) { return module.addCrossEntropyRows(false, f32(), form); });
    auto bend = [&](double x) {
      return form.softcap == 0.0 ? form.scale * x : form.softcap * std::tanh(form.scale * x / form.softcap);
    };
    for (int64_t columns : {1, 3, 64, 97}) {
      int64_t rows = 4, ld = columns + 5;
      std::vector<float> products = randomFloats(rows * ld, 1), kept = products, forLoss = products, loss(rows),
                         evaluated(rows);
      std::vector<int32_t> targets{0, -100, int32_t(columns / 2), int32_t(columns - 1)};
      float scale = 0.25f;
      evaluation.run({forLoss.data(), targets.data(), evaluated.data()}, {ld, columns}, 0, rows);
      training.run({products.data(), targets.data(), &scale, loss.data()}, {ld, columns}, 0, rows);
      EXPECT_EQ(loss, evaluated);
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c)
          sum += std::exp(bend(kept[r * ld + c]));
        bool counted = targets[r] >= 0;
        EXPECT_NEAR(loss[r], counted ? std::log(sum) - bend(kept[r * ld + targets[r]]) : 0.0, 2e-6);
        for (int64_t c = 0; c < columns; ++c) {
          double logit = bend(kept[r * ld + c]), part = form.softcap == 0.0 ? 0.0 : logit / form.softcap;
          double want =
              counted ? (std::exp(logit) / sum - (c == targets[r])) * scale * form.scale * (1 - part * part) : 0.0;
          ASSERT_NEAR(products[r * ld + c], want, 1e-6);
        }
        EXPECT_EQ(products[r * ld + columns], kept[r * ld + columns]);
      }
    }
  }
}

/// What enters a product of narrow factors holds numbers of the narrow type: the f32 kernel's results, rounded.
TEST(CodegenService, NarrowKernelsRoundWhatEntersAProduct) {
  struct Narrow {
    mlir::Type type;
    float (*round)(float);
  };
  const Narrow narrowTypes[] = {
      {mlir::BFloat16Type::get(&kernelContext()), [](float x) { return fromBf16(toBf16(x)); }},
      {mlir::Float16Type::get(&kernelContext()), [](float x) { return fromF16(toF16(x)); }}};
  const Block block = kBlocks[1];
  std::vector<int64_t> scalars{block.first, block.ld, block.columns, block.window};
  const std::vector<float> scores = randomFloats(block.rows * block.ld, 1), dps = randomFloats(scores.size(), 2);
  std::vector<float> delta = randomFloats(block.rows, 3), lse(block.rows);
  auto softmax = [&](mlir::Type type) {
    Service service([&](KernelModule &module) { return module.addAttentionSoftmax(true, type); });
    std::vector<float> p = scores;
    service.run({p.data(), lse.data()}, scalars, 0, block.rows);
    return p;
  };
  auto softmaxGrad = [&](mlir::Type type) {
    Service service([&](KernelModule &module) { return module.addAttentionSoftmaxGrad(0.25, true, type); });
    std::vector<float> both = scores, ds = dps;
    service.run({both.data(), ds.data(), lse.data(), delta.data()}, scalars, 0, block.rows);
    both.insert(both.end(), ds.begin(), ds.end());
    return both;
  };
  auto crossEntropy = [&](mlir::Type type, std::vector<float> logits) {
    Service service([&](KernelModule &module) { return module.addCrossEntropyRows(true, type); });
    std::vector<float> loss(block.rows);
    std::vector<int32_t> targets(block.rows, 3);
    targets[1] = -100;
    float scale = 0.125f;
    service.run({logits.data(), targets.data(), &scale, loss.data()}, {block.ld, block.columns}, 0, block.rows);
    logits.insert(logits.end(), loss.begin(), loss.end());
    return logits;
  };
  auto expectRounded = [&](auto run, size_t roundedCount) {
    const std::vector<float> exact = run(f32());
    for (const Narrow &narrow : narrowTypes) {
      std::vector<float> rounded = run(narrow.type);
      for (size_t i = 0; i < exact.size(); ++i) {
        bool isRounded = i < roundedCount && int64_t(i) % block.ld < block.high(int64_t(i) / block.ld % block.rows);
        ASSERT_EQ(rounded[i], isRounded ? narrow.round(exact[i]) : exact[i]) << i;
      }
    }
  };
  expectRounded(softmax, scores.size());
  expectRounded(softmaxGrad, 2 * scores.size());
  // All columns of cross_entropy are visible; its logits are rounded, its losses are not.
  for (const Narrow &narrow : narrowTypes) {
    std::vector<float> logits = scores;
    for (int64_t i = 0; i < int64_t(logits.size()); ++i)
      logits[i] = i % block.ld < block.columns ? narrow.round(logits[i]) : logits[i];
    const std::vector<float> exact = crossEntropy(f32(), logits), rounded = crossEntropy(narrow.type, scores);
    for (size_t i = 0; i < exact.size(); ++i) {
      bool isRounded = i < scores.size() && int64_t(i) % block.ld < block.columns;
      ASSERT_EQ(rounded[i], isRounded ? narrow.round(exact[i]) : exact[i]) << i;
    }
  }
}

} // namespace ztc::test::service
