// Attention whose scores are capped by a tanh is one op, however the model says so.
#include "OnnxHarness.h"
#include "compiler/Dialect/Graph/Graph.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace mlir;
using namespace ztc::importer;

namespace ztc::test::attention {
namespace {

constexpr int64_t kSequence = 4, kWidth = 4, kVocabulary = 7;
constexpr float kScale = 0.75f, kCap = 1.5f;

/// Number i of the embedding's table.
float entry(int64_t i) {
  return float((i * 37 % 11) - 5) / 4;
}

/// A model of one head whose queries, keys and values "x" are the embeddings, and whose logits are sums over "y".
struct CappedModel {
  OnnxWriter writer{23};

  CappedModel() {
    writer.input("ids", ElementType::I64, {"b", "s"});
    std::vector<float> table;
    for (int64_t i = 0; i < kVocabulary * kWidth; ++i)
      table.push_back(entry(i));
    writer.floats("table", {kVocabulary, kWidth}, table);
    writer.floats("head", {kWidth, kVocabulary}, std::vector<float>(kWidth * kVocabulary, 1.0f));
    writer.node("Gather", {"table", "ids"}, {"x"}, {}, "model.embed_tokens");
  }

  /// Writes attention out; `cap` makes "capped" of "scaled".
  void writeOut(float scale, const std::function<void()> &cap) {
    writer.integers("axis", {1}, {1});
    writer.floats("scale", {}, {scale});
    writer.node("Unsqueeze", {"x", "axis"}, {"heads"});
    writer.node("Transpose", {"heads"}, {"keys"}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    writer.node("MatMul", {"heads", "keys"}, {"products"});
    writer.node("Mul", {"products", "scale"}, {"scaled"});
    cap();
    writer.node("Softmax", {"capped"}, {"p"}, {{"axis", int64_t(-1)}});
    writer.node("MatMul", {"p", "heads"}, {"out"});
    writer.node("Squeeze", {"out", "axis"}, {"y"});
  }

  /// Holds the imported model against the formula.
  void expectCapped(bool causal) {
    writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
    writer.output("logits", ElementType::F32, {"b", "s", kVocabulary});
    TemporaryFolder folder;
    ImportOptions options;
    options.batch = 1;
    options.seq = kSequence;
    Imported imported = test::import(folder.write("model.onnx", writer.bytes()), options);
    ASSERT_TRUE(imported.module) << imported.errors;
    SmallVector<graph::AttentionOp> found;
    imported.module->walk([&](graph::AttentionOp op) { found.push_back(op); });
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(imported.count("graph.tanh"), 0u);
    EXPECT_EQ(found[0].getSoftcap().convertToDouble(), kCap);
    EXPECT_NEAR(found[0].getScale().convertToDouble(), kScale, 1e-7);
    EXPECT_EQ(found[0].getCausal(), causal);
    const std::vector<int64_t> tokens{3, 0, 6, 2};
    std::optional<Tensor> logits = forwardLogits(imported, tokens);
    ASSERT_TRUE(logits);
    auto at = [&](int64_t position, int64_t d) { return double(entry(tokens[size_t(position)] * kWidth + d)); };
    for (int64_t i = 0; i < kSequence; ++i) {
      double sum = 0, weighted = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : kSequence); ++j) {
        double score = 0, values = 0;
        for (int64_t d = 0; d < kWidth; ++d) {
          score += at(i, d) * at(j, d) * kScale;
          values += at(j, d);
        }
        const double p = std::exp(kCap * std::tanh(score / kCap));
        sum += p;
        weighted += p * values;
      }
      EXPECT_NEAR(logits->reals[size_t(i * kVocabulary)], weighted / sum, 2e-6) << "position " << i;
    }
  }
};

TEST(OnnxCappedAttention, OfTheStandardOperator) {
  for (bool causal : {false, true}) {
    CappedModel model;
    model.writer.node("Attention", {"x", "x", "x"}, {"y"},
                      {{"softcap", kCap},
                       {"scale", kScale},
                       {"is_causal", int64_t(causal)},
                       {"q_num_heads", int64_t(1)},
                       {"kv_num_heads", int64_t(1)}});
    model.expectCapped(causal);
  }
}

TEST(OnnxCappedAttention, OfGroupQueryAttention) {
  CappedModel model;
  model.writer.input("seqlens", ElementType::I32, {"b"});
  model.writer.input("total", ElementType::I32, {});
  model.writer.node("com.microsoft::GroupQueryAttention", {"x", "x", "x", "", "", "seqlens", "total"}, {"y", "", ""},
                    {{"num_heads", int64_t(1)}, {"kv_num_heads", int64_t(1)}, {"scale", kScale}, {"softcap", kCap}});
  model.expectCapped(/*causal=*/true);
}

TEST(OnnxCappedAttention, DividedByTheCap) {
  CappedModel model;
  model.writeOut(kScale, [&] {
    model.writer.floats("cap", {}, {kCap});
    model.writer.node("Div", {"scaled", "cap"}, {"parts"});
    model.writer.node("Tanh", {"parts"}, {"bent"});
    model.writer.node("Mul", {"bent", "cap"}, {"capped"});
  });
  model.expectCapped(/*causal=*/false);
}

/// One factor for the scale and the cap; both caps negative, which is the same.
TEST(OnnxCappedAttention, ScaledByOneFactor) {
  for (float sign : {1.0f, -1.0f}) {
    CappedModel model;
    model.writeOut(sign * kScale / kCap, [&] {
      model.writer.floats("cap", {}, {sign * kCap});
      model.writer.node("Tanh", {"scaled"}, {"bent"});
      model.writer.node("Mul", {"cap", "bent"}, {"capped"});
    });
    model.expectCapped(/*causal=*/false);
  }
}

} // namespace
} // namespace ztc::test::attention
