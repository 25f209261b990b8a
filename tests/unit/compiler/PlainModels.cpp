// Models whose attention and routing no idiom covers: plain ops, by the whole compiler against the interpreter.
#include "tests/unit/compiler/RandomGraph.h"
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

namespace {

/// One row of tokens, 3 of them, 5 words, width 4. `body` makes %h (3x4) of %x (3x4); `parameters` are its own.
std::string model(const std::string &parameters, const std::string &body) {
  return R"(module attributes {graph.model = "plain", graph.batch = 1 : i64, graph.seq = 3 : i64, graph.vocabulary = 5 : i64, graph.layers = 1 : i64} {
  func.func @forward(%tokens: tensor<1x3xi32> {graph.role = #graph.role<tokens>},
      %embed: tensor<5x4xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"},
      )" +
         parameters +
         R"() -> (tensor<1x3x5xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %flat = graph.reshape %tokens : tensor<1x3xi32> -> tensor<3xi32>
    %x = graph.embedding %embed, %flat : tensor<5x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
    )" + body +
         R"(
    %y = graph.matmul %h, %embed {transpose_b} : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x5xf32>
    %logits = graph.reshape %y : tensor<3x5xf32> -> tensor<1x3x5xf32>
    return %logits : tensor<1x3x5xf32>
  }
})";
}

void expectSteps(const std::string &text) {
  StepOptions options;
  EXPECT_EQ(compareStep(text, options, 1), "");
  options.zero = 3;
  options.recompute = "cheap";
  EXPECT_EQ(compareStep(text, options, 2), "");
  for (StoragePrecision precision : {StoragePrecision::Bf16, StoragePrecision::Fp16}) {
    options = {};
    options.precision = precision;
    options.tolerance = 0.05;
    EXPECT_EQ(compareStep(text, options, 3), "") << wordOf(precision);
  }
}

// Scores capped and biased by tables, a mask of truth values, a column that takes weight and gives nothing (a sink),
// heads of 3 over keys of another length (the tokens twice).
TEST(PlainModels, AttentionWithCapBiasMaskAndSink) {
  expectSteps(model(
      R"(%wq: tensor<6x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.q.weight"},
      %wk: tensor<6x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.k.weight"},
      %sink: tensor<2xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.sink"},
      %wo: tensor<4x6xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.o.weight"})",
      R"(
    %q = graph.matmul %x, %wq {transpose_b} : tensor<3x4xf32>, tensor<6x4xf32> -> tensor<3x6xf32>
    %xx = graph.concat %x, %x axis 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>
    %k = graph.matmul %xx, %wk {transpose_b} : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x6xf32>
    %q3 = graph.reshape %q : tensor<3x6xf32> -> tensor<3x2x3xf32>
    %k3 = graph.reshape %k : tensor<6x6xf32> -> tensor<6x2x3xf32>
    %qt = graph.transpose %q3, [1, 0, 2] : tensor<3x2x3xf32> -> tensor<2x3x3xf32>
    %kt = graph.transpose %k3, [1, 0, 2] : tensor<6x2x3xf32> -> tensor<2x6x3xf32>
    %s = graph.matmul %qt, %kt {transpose_b} : tensor<2x3x3xf32>, tensor<2x6x3xf32> -> tensor<2x3x6xf32>
    %cap = graph.constant dense<5.0> : tensor<2x3x6xf32>
    %part = graph.div %s, %cap : tensor<2x3x6xf32>
    %bent = graph.tanh %part : tensor<2x3x6xf32>
    %capped = graph.mul %bent, %cap : tensor<2x3x6xf32>
    %bias = graph.constant dense<[[[0.0, -0.5, -1.0, -1.5, -2.0, -2.5]], [[0.0, -0.25, -0.5, -0.75, -1.0, -1.25]]]> : tensor<2x1x6xf32>
    %biases = graph.broadcast %bias : tensor<2x1x6xf32> -> tensor<2x3x6xf32>
    %biased = graph.add %capped, %biases : tensor<2x3x6xf32>
    %mask = graph.constant dense<[[true, false, false, true, false, false], [true, true, false, true, true, false], [true, true, true, true, true, true]]> : tensor<3x6xi1>
    %masks = graph.broadcast %mask : tensor<3x6xi1> -> tensor<2x3x6xi1>
    %lowest = graph.constant dense<-3.40282347E+38> : tensor<2x3x6xf32>
    %seen = graph.select %masks, %biased, %lowest : tensor<2x3x6xi1>, tensor<2x3x6xf32>
    %sink3 = graph.reshape %sink : tensor<2xf32> -> tensor<2x1x1xf32>
    %sinks = graph.broadcast %sink3 : tensor<2x1x1xf32> -> tensor<2x3x1xf32>
    %joined = graph.concat %seen, %sinks axis 2 : tensor<2x3x6xf32>, tensor<2x3x1xf32> -> tensor<2x3x7xf32>
    %p = graph.softmax %joined : tensor<2x3x7xf32>
    %p6 = graph.slice %p, [0, 0, 0] : tensor<2x3x7xf32> -> tensor<2x3x6xf32>
    %o = graph.matmul %p6, %kt : tensor<2x3x6xf32>, tensor<2x6x3xf32> -> tensor<2x3x3xf32>
    %ot = graph.transpose %o, [1, 0, 2] : tensor<2x3x3xf32> -> tensor<3x2x3xf32>
    %o2 = graph.reshape %ot : tensor<3x2x3xf32> -> tensor<3x6xf32>
    %z = graph.matmul %o2, %wo {transpose_b} : tensor<3x6xf32>, tensor<4x6xf32> -> tensor<3x4xf32>
    %h = graph.add %x, %z : tensor<3x4xf32>)"));
}

// Two experts of three: ranks by comparison, probabilities of the others 0, all experts over all tokens in batched
// products.
TEST(PlainModels, MixtureOfExperts) {
  expectSteps(model(
      R"(%router: tensor<3x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.router.weight"},
      %up: tensor<3x4x5xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.experts.up"},
      %down: tensor<3x5x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.experts.down"})",
      R"(
    %scores = graph.matmul %x, %router {transpose_b} : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x3xf32>
    %p = graph.softmax %scores : tensor<3x3xf32>
    %pa = graph.reshape %p : tensor<3x3xf32> -> tensor<3x3x1xf32>
    %pb = graph.reshape %p : tensor<3x3xf32> -> tensor<3x1x3xf32>
    %a = graph.broadcast %pa : tensor<3x3x1xf32> -> tensor<3x3x3xf32>
    %b = graph.broadcast %pb : tensor<3x1x3xf32> -> tensor<3x3x3xf32>
    %greater = graph.compare gt, %b, %a : tensor<3x3x3xf32> -> tensor<3x3x3xi1>
    %ones = graph.cast %greater : tensor<3x3x3xi1> -> tensor<3x3x3xi32>
    %rank = graph.reduce_sum %ones, [2] : tensor<3x3x3xi32> -> tensor<3x3x1xi32>
    %rank2 = graph.reshape %rank : tensor<3x3x1xi32> -> tensor<3x3xi32>
    %two = graph.constant dense<2> : tensor<3x3xi32>
    %chosen = graph.compare lt, %rank2, %two : tensor<3x3xi32> -> tensor<3x3xi1>
    %zero = graph.constant dense<0.0> : tensor<3x3xf32>
    %kept = graph.select %chosen, %p, %zero : tensor<3x3xi1>, tensor<3x3xf32>
    %sum = graph.reduce_sum %kept, [1] : tensor<3x3xf32> -> tensor<3x1xf32>
    %sums = graph.broadcast %sum : tensor<3x1xf32> -> tensor<3x3xf32>
    %weights = graph.div %kept, %sums : tensor<3x3xf32>
    %x3 = graph.broadcast %x : tensor<3x4xf32> -> tensor<3x3x4xf32>
    %u = graph.matmul %x3, %up : tensor<3x3x4xf32>, tensor<3x4x5xf32> -> tensor<3x3x5xf32>
    %s = graph.sigmoid %u : tensor<3x3x5xf32>
    %act = graph.mul %u, %s : tensor<3x3x5xf32>
    %d = graph.matmul %act, %down : tensor<3x3x5xf32>, tensor<3x5x4xf32> -> tensor<3x3x4xf32>
    %wt = graph.transpose %weights, [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
    %w3 = graph.reshape %wt : tensor<3x3xf32> -> tensor<3x3x1xf32>
    %wb = graph.broadcast %w3 : tensor<3x3x1xf32> -> tensor<3x3x4xf32>
    %weighted = graph.mul %d, %wb : tensor<3x3x4xf32>
    %all = graph.reduce_sum %weighted, [0] : tensor<3x3x4xf32> -> tensor<1x3x4xf32>
    %all2 = graph.reshape %all : tensor<1x3x4xf32> -> tensor<3x4xf32>
    %h = graph.add %x, %all2 : tensor<3x4xf32>)"));
}

// Rows of the hidden state gathered by routing, and scattered back.
TEST(PlainModels, RowsByComputedIndices) {
  expectSteps(model(
      R"(%w: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.w.weight"})",
      R"(
    %six = graph.constant dense<3> : tensor<3xi32>
    %one = graph.constant dense<1> : tensor<3xi32>
    %next = graph.add %flat, %one : tensor<3xi32>
    %i = graph.remainder %next, %six : tensor<3xi32>
    %rows = graph.embedding %x, %i : tensor<3x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
    %z = graph.matmul %rows, %w {transpose_b} : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    %t = graph.tanh %z : tensor<3x4xf32>
    %back = graph.embedding_grad %i, %t : tensor<3xi32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %numbers = graph.constant dense<[4, 7, 9]> : tensor<3xi64>
    %column = graph.reshape %numbers : tensor<3xi64> -> tensor<3x1xi64>
    %looked = graph.embedding %column, %i : tensor<3x1xi64>, tensor<3xi32> -> tensor<3x1xi64>
    %real = graph.cast %looked : tensor<3x1xi64> -> tensor<3x1xf32>
    %wave = graph.sin %real : tensor<3x1xf32>
    %waves = graph.broadcast %wave : tensor<3x1xf32> -> tensor<3x4xf32>
    %turned = graph.mul %back, %waves : tensor<3x4xf32>
    %h = graph.add %x, %turned : tensor<3x4xf32>)"));
}

} // namespace
