// onnxruntime's mixture of experts (com.microsoft::MoE) beside its formula, and what is refused with which reason.
#include "OnnxHarness.h"
#include "gmock/gmock.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace ztc;
using namespace ztc::importer;
using namespace ztc::test;
using testing::HasSubstr;

namespace ztc::test::experts {
namespace {

constexpr int64_t kVocabulary = 7, kHidden = 3, kWidth = 2, kExperts = 4;
const std::vector<int64_t> kTokens{0, 1, 2, 3, 4, 6};

/// Numbers in [-1, 1] that look like chance and are the same everywhere.
std::vector<float> numbers(int64_t count, unsigned seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = float(std::sin(double(i + 1) * 12.9898 + double(seed) * 78.233));
  return result;
}

struct Mixture {
  std::string activation = "silu";
  int64_t perToken = 2, normalises = 0, fusion = 0;
  bool hasBias = true, hasThird = false, isFlat = false;
  float alpha = 1, beta = 0, limit = 0; ///< 0: none

  int64_t firstWidth() const { return activation == "swiglu" && fusion ? 2 * kWidth : kWidth; }
};

const std::vector<float> kTable = numbers(kVocabulary * kHidden, 1), kHead = numbers(kHidden * kVocabulary, 2),
                         kRouter = numbers(kHidden * kExperts, 3);
std::vector<float> weightsOf(int64_t outputs, int64_t inputs, unsigned seed) {
  return numbers(kExperts * outputs * inputs, seed);
}

OnnxWriter written(const Mixture &mixture, std::vector<std::pair<std::string, OnnxWriter::Attribute>> more = {}) {
  OnnxWriter writer;
  writer.input("tokens", ElementType::I64, {"b", "s"});
  writer.floats("table", {kVocabulary, kHidden}, kTable);
  writer.floats("head", {kHidden, kVocabulary}, kHead);
  writer.floats("router", {kHidden, kExperts}, kRouter);
  const int64_t first = mixture.firstWidth();
  writer.floats("first", {kExperts, first, kHidden}, weightsOf(first, kHidden, 4));
  writer.floats("first_bias", {kExperts, first}, weightsOf(first, 1, 5));
  writer.floats("second", {kExperts, kHidden, kWidth}, weightsOf(kHidden, kWidth, 6));
  writer.floats("second_bias", {kExperts, kHidden}, weightsOf(kHidden, 1, 7));
  writer.floats("third", {kExperts, kWidth, kHidden}, weightsOf(kWidth, kHidden, 8));
  writer.floats("third_bias", {kExperts, kWidth}, weightsOf(kWidth, 1, 9));
  writer.integers("rows", {2}, {-1, kHidden});
  writer.integers("choices", {2}, {-1, kExperts});
  writer.node("Gather", {"table", "tokens"}, {"x"}, {}, "model.embed_tokens");
  writer.node("MatMul", {"x", "router"}, {"scores"}, {}, "model.layers.0.moe.router");
  writer.node("Reshape", {"scores", "choices"}, {"logits_of_experts"});
  if (mixture.isFlat)
    writer.node("Reshape", {"x", "rows"}, {"x_rows"});
  auto bias = [&](const char *name) { return std::string(mixture.hasBias ? name : ""); };
  std::vector<std::string> inputs{
      mixture.isFlat ? "x_rows" : "x", "logits_of_experts", "first", bias("first_bias"), "second", bias("second_bias")};
  if (mixture.hasThird) {
    inputs.push_back("third");
    inputs.push_back(bias("third_bias"));
  }
  std::vector<std::pair<std::string, OnnxWriter::Attribute>> attributes{
      {"activation_type", mixture.activation},
      {"k", mixture.perToken},
      {"normalize_routing_weights", mixture.normalises},
      {"swiglu_fusion", mixture.fusion}};
  if (mixture.alpha != 1 || mixture.beta != 0) {
    attributes.emplace_back("activation_alpha", mixture.alpha);
    attributes.emplace_back("activation_beta", mixture.beta);
  }
  if (mixture.limit != 0)
    attributes.emplace_back("swiglu_limit", mixture.limit);
  attributes.insert(attributes.end(), more.begin(), more.end());
  writer.node("com.microsoft::MoE", inputs, {"y"}, attributes, "model.layers.0.moe");
  std::string y = "y";
  if (mixture.isFlat) {
    writer.node("Shape", {"x"}, {"shape"});
    writer.node("Reshape", {"y", "shape"}, {"y_rows"});
    y = "y_rows";
  }
  writer.node("MatMul", {y, "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", kVocabulary});
  return writer;
}

Imported importText(const TemporaryFolder &folder, const OnnxWriter &writer) {
  ImportOptions options;
  options.batch = 2;
  options.seq = 3;
  return test::import(folder.write("model.onnx", writer.bytes()), options);
}

double activated(const Mixture &mixture, double x) {
  if (mixture.activation == "relu")
    return std::max(x, 0.0);
  if (mixture.activation == "silu")
    return x / (1 + std::exp(-x));
  if (mixture.activation == "gelu")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

double swiglu(const Mixture &mixture, double gate, double linear) {
  if (mixture.limit != 0) {
    gate = std::min(gate, double(mixture.limit));
    linear = std::clamp(linear, -double(mixture.limit), double(mixture.limit));
  }
  return gate / (1 + std::exp(-double(mixture.alpha) * gate)) * (linear + double(mixture.beta));
}

/// A row of (inputs) times one expert's matrix (outputs, inputs), and its bias.
std::vector<double> product(const Mixture &mixture, const std::vector<double> &x, int64_t expert, int64_t outputs,
                            unsigned seed) {
  const int64_t inputs = int64_t(x.size());
  const std::vector<float> weights = weightsOf(outputs, inputs, seed), bias = weightsOf(outputs, 1, seed + 1);
  std::vector<double> y(static_cast<size_t>(outputs));
  for (int64_t o = 0; o < outputs; ++o) {
    y[size_t(o)] = mixture.hasBias ? double(bias[size_t(expert * outputs + o)]) : 0;
    for (int64_t i = 0; i < inputs; ++i)
      y[size_t(o)] += x[size_t(i)] * double(weights[size_t((expert * outputs + o) * inputs + i)]);
  }
  return y;
}

std::vector<double> expertOf(const Mixture &mixture, const std::vector<double> &x, int64_t expert) {
  const std::vector<double> first = product(mixture, x, expert, mixture.firstWidth(), 4);
  std::vector<double> third =
      mixture.hasThird ? product(mixture, x, expert, kWidth, 8) : std::vector<double>(kWidth, 1);
  std::vector<double> middle(kWidth);
  for (size_t i = 0; i < middle.size(); ++i) {
    if (mixture.activation != "swiglu")
      middle[i] = activated(mixture, first[i]) * third[i];
    else if (mixture.fusion == 0)
      middle[i] = swiglu(mixture, first[i], third[i]);
    else if (mixture.fusion == 1)
      middle[i] = swiglu(mixture, first[2 * i], first[2 * i + 1]);
    else
      middle[i] = swiglu(mixture, first[i], first[kWidth + i]);
  }
  return product(mixture, middle, expert, kHidden, 6);
}

/// Softmax over all experts; the best take part, with what they have or with that divided by their sum.
std::vector<double> logitsOf(const Mixture &mixture, int64_t token) {
  const std::vector<double> x(kTable.begin() + token * kHidden, kTable.begin() + (token + 1) * kHidden);
  std::vector<double> shares(kExperts);
  for (size_t e = 0; e < shares.size(); ++e) {
    for (size_t i = 0; i < x.size(); ++i)
      shares[e] += x[i] * double(kRouter[i * kExperts + e]);
    shares[e] = std::exp(shares[e]);
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<size_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shares[a] > shares[b]; });
  order.resize(size_t(mixture.perToken));
  double sum = 0;
  for (size_t e : order)
    sum += shares[e];
  std::vector<double> y(kHidden), logits(kVocabulary);
  for (size_t e : order) {
    const std::vector<double> term = expertOf(mixture, x, int64_t(e));
    for (size_t i = 0; i < y.size(); ++i)
      y[i] += term[i] * shares[e] / (mixture.normalises ? sum : all);
  }
  for (size_t v = 0; v < logits.size(); ++v)
    for (size_t i = 0; i < y.size(); ++i)
      logits[v] += y[i] * double(kHead[i * kVocabulary + v]);
  return logits;
}

TEST(OnnxExperts, ComputeTheOperatorsFormula) {
  const std::pair<const char *, Mixture> cases[] = {
      {"relu", {.activation = "relu", .perToken = 1}},
      {"gelu", {.activation = "gelu", .hasBias = false}},
      {"silu, normalised", {.normalises = 1}},
      {"silu with a second factor", {.normalises = 1, .hasThird = true}},
      {"identity, rows", {.activation = "identity", .perToken = 4, .isFlat = true}},
      {"SwiGLU in two products", {.activation = "swiglu", .hasThird = true, .alpha = 1.702F, .beta = 1}},
      {"SwiGLU by turns", {.activation = "swiglu", .fusion = 1, .alpha = 1.702F, .beta = 1, .limit = 0.5F}},
      {"SwiGLU one after the other", {.activation = "swiglu", .normalises = 1, .fusion = 2, .hasBias = false}},
  };
  for (const auto &[name, mixture] : cases) {
    SCOPED_TRACE(name);
    TemporaryFolder folder;
    Imported imported = importText(folder, written(mixture));
    ASSERT_TRUE(imported.module) << imported.errors;
    std::optional<Tensor> logits = forwardLogits(imported, kTokens);
    ASSERT_TRUE(logits);
    for (size_t t = 0; t < kTokens.size(); ++t) {
      const std::vector<double> expected = logitsOf(mixture, kTokens[t]);
      for (size_t v = 0; v < expected.size(); ++v)
        EXPECT_NEAR(logits->reals[t * kVocabulary + v], expected[v], 1e-5) << "token " << t << ", logit " << v;
    }
  }
}

TEST(OnnxExperts, WhatIsNotBuiltIsNamed) {
  auto errorOf = [](const Mixture &mixture, std::vector<std::pair<std::string, OnnxWriter::Attribute>> more = {}) {
    TemporaryFolder folder;
    Imported imported = importText(folder, written(mixture, std::move(more)));
    EXPECT_FALSE(imported.module);
    EXPECT_EQ(imported.errorCount, 1U) << imported.errors;
    return imported.errors;
  };
  EXPECT_THAT(errorOf({.activation = "tanh"}), HasSubstr("has activation 'tanh', which the operator does not know"));
  EXPECT_THAT(errorOf({}, {{"use_sparse_mixer", int64_t(1)}}), HasSubstr("sparse mixer (use_sparse_mixer)"));
  EXPECT_THAT(errorOf({.perToken = 5}), HasSubstr("chooses 5 of 4 experts"));
  EXPECT_THAT(errorOf({.activation = "swiglu"}), HasSubstr("no fc3_experts_weights"));
  EXPECT_THAT(errorOf({.activation = "swiglu", .fusion = 3}), HasSubstr("has swiglu_fusion 3"));
  // Written for one product without a gate, read as two.
  EXPECT_THAT(errorOf({.activation = "silu", .fusion = 1}, {{"activation_type", std::string("swiglu")}}),
              HasSubstr("fc1_experts_weights has shape (4, 2, 3); rows of 3 and experts of width 2 want (4, 4, 3)"));
}

} // namespace
} // namespace ztc::test::experts
