// Linear attention and causal convolutions of ONNX graphs: states that a row begins with, forms that onnxruntime's
// operators have beside ONNX's, and what is refused with which reason.
#include "OnnxHarness.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "gmock/gmock.h"

using namespace ztc;
using namespace ztc::importer;
using namespace ztc::test;
using testing::HasSubstr;

namespace ztc::test::recurrence {
namespace {

/// tokens -> x (B, S, 8).
OnnxWriter embedded() {
  OnnxWriter writer;
  writer.input("tokens", ElementType::I64, {"b", "s"});
  writer.floats("table", {7, 8}, std::vector<float>(56, 0.5f));
  writer.floats("head", {4, 7}, std::vector<float>(28, 0.25f));
  writer.node("Gather", {"table", "tokens"}, {"x"}, {}, "model.embed_tokens");
  return writer;
}

/// The first 4 columns of `y` times the head.
void finish(OnnxWriter &writer, const std::string &y) {
  writer.integers("from", {1}, {0});
  writer.integers("to", {1}, {4});
  writer.integers("axis", {1}, {2});
  writer.node("Slice", {y, "from", "to", "axis"}, {"narrow"});
  writer.node("MatMul", {"narrow", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
}

Imported importText(const OnnxWriter &writer) {
  TemporaryFolder folder;
  ImportOptions options;
  options.batch = 2;
  options.seq = 3;
  return test::import(folder.write("model.onnx", writer.bytes()), options);
}

using Attributes = std::vector<std::pair<std::string, OnnxWriter::Attribute>>;

/// onnxruntime's LinearAttention over x with `heads` of queries and two states, keys of `keyColumns`.
Imported attention(const Attributes &attributes, const std::vector<std::string> &more = {}, int64_t keyColumns = 8) {
  OnnxWriter writer = embedded();
  writer.integers("first", {1}, {0});
  writer.integers("end", {1}, {keyColumns});
  writer.integers("columns", {1}, {2});
  writer.node("Slice", {"x", "first", "end", "columns"}, {"k"});
  std::vector<std::string> inputs{"x", "k", "x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  writer.node("com.microsoft::LinearAttention", inputs, {"y", "present"}, attributes, "model.layers.0.attn");
  finish(writer, "y");
  return importText(writer);
}

Attributes rule(const std::string &name, int64_t queries = 2, int64_t states = 2) {
  return {{"update_rule", name}, {"q_num_heads", queries}, {"kv_num_heads", states}};
}

TEST(OnnxRecurrence, ARowBeginsWithStatesOfZeros) {
  OnnxWriter writer = embedded();
  writer.input("window", ElementType::F32, {"b", int64_t(8), int64_t(2)});
  writer.input("state", ElementType::F32, {"b", int64_t(2), int64_t(4), int64_t(4)});
  writer.floats("short.weight", {8, 1, 3}, std::vector<float>(24, 0.5f));
  writer.node("Transpose", {"x"}, {"turned"}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  writer.node("com.microsoft::CausalConvWithState", {"turned", "short.weight", "", "window"}, {"mixed", "next_window"},
              {{"activation", std::string("silu")}}, "model.layers.0.short");
  writer.node("Transpose", {"mixed"}, {"rows"}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  writer.node("com.microsoft::LinearAttention", {"rows", "rows", "rows", "state"}, {"y", "next_state"}, rule("linear"),
              "model.layers.0.attn");
  finish(writer, "y");
  writer.output("next_state", ElementType::F32, {"b", int64_t(2), int64_t(4), int64_t(4)});
  Imported imported = importText(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  for (const ImportReport::Port &port : imported.report.inputs)
    EXPECT_EQ(port.role, port.name == "tokens" ? "tokens" : "zeros") << port.name;
  EXPECT_EQ(imported.count("graph.linear_attention"), 1u);
  EXPECT_EQ(imported.count("graph.causal_convolution"), 1u);
  // Two transposes undo one another, and no past is left.
  EXPECT_EQ(imported.count("graph.transpose"), 0u);
  imported.forward().walk([](graph::LinearAttentionOp op) { EXPECT_FALSE(op.getPast()); });
  imported.forward().walk([](graph::CausalConvolutionOp op) { EXPECT_FALSE(op.getPast()); });
}

TEST(OnnxRecurrence, KeysThatStatesShareAreRepeated) {
  Imported imported = attention(rule("linear"), {}, /*keyColumns=*/4);
  ASSERT_TRUE(imported.module) << imported.errors;
  imported.forward().walk([](graph::LinearAttentionOp op) {
    EXPECT_EQ(op.getK().getType(), op.getQ().getType());
    EXPECT_FALSE(op.getDelta());
  });
}

TEST(OnnxRecurrence, QueriesThatStatesShareAreRepeated) {
  OnnxWriter writer = embedded();
  writer.integers("first", {1}, {0});
  writer.integers("end", {1}, {4});
  writer.integers("columns", {1}, {2});
  writer.node("Slice", {"x", "first", "end", "columns"}, {"q"});
  writer.node("com.microsoft::LinearAttention", {"q", "x", "x"}, {"y", ""}, rule("linear", 1, 2));
  finish(writer, "y");
  Imported imported = importText(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  imported.forward().walk([](graph::LinearAttentionOp op) { EXPECT_EQ(op.getQ().getType(), op.getK().getType()); });
}

TEST(OnnxRecurrence, WhatIsRefusedHasItsReason) {
  EXPECT_THAT(attention(rule("softmax")).errors, HasSubstr("update_rule 'softmax' is none of linear, gated, delta"));
  EXPECT_THAT(attention(rule("gated")).errors, HasSubstr("update_rule 'gated' needs the input decay"));
  EXPECT_THAT(attention(rule("delta")).errors, HasSubstr("update_rule 'delta' needs the input beta"));
  EXPECT_THAT(attention(rule("linear", 3)).errors, HasSubstr("(batch, sequence, heads * width) of q_num_heads"));
  EXPECT_THAT(attention(rule("linear", 2, 2), {}, 3).errors, HasSubstr("its heads do not fit one another"));
  EXPECT_THAT(attention(rule("gated"), {"", "k"}, 3).errors, HasSubstr("its heads do not fit one another"));
  EXPECT_THAT(attention(rule("gated"), {"", "k"}, 4).errors, HasSubstr("its decay is neither (batch, sequence"));
  Attributes windows = rule("linear");
  windows.push_back({"state_window", int64_t(3)});
  EXPECT_THAT(attention(windows).errors, HasSubstr("keeps the states of several steps (state_window)"));
}

} // namespace
} // namespace ztc::test::recurrence
