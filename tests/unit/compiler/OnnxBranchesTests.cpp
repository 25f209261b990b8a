// `If`: what its condition chooses when sizes are bound is the model, and nothing else of it is looked at.
#include "OnnxHarness.h"
#include "gmock/gmock.h"

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using testing::HasSubstr;

namespace ztc::test::branches {
namespace {

constexpr int64_t V = 7, H = 4;

/// Rows x of a table by tokens; "length" is the sequence length, "one" the number 1.
OnnxWriter lookup() {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.output("logits", ElementType::F32, {"b", "s", V});
  writer.floats("embed.weight", {V, H}, std::vector<float>(V * H, 0.5f));
  writer.floats("head.weight", {H, V}, std::vector<float>(V * H, 0.25f));
  writer.integers("one", {}, {1});
  writer.node("Gather", {"embed.weight", "input_ids"}, {"x"});
  writer.node("Shape", {"input_ids"}, {"sizes"});
  writer.node("Gather", {"sizes", "one"}, {"length"});
  return writer;
}

void finish(OnnxWriter &writer) {
  writer.node("MatMul", {"y", "head.weight"}, {"logits"});
}

/// A branch of one node; each calls its value "r", which the other does too.
OnnxWriter::Graph branch(const std::string &op, const std::vector<std::string> &inputs) {
  OnnxWriter writer;
  writer.node(op, inputs, {"r"});
  writer.output("r", ElementType::F32, {"b", "s", H});
  return writer.asGraph();
}

Imported importWriter(const OnnxWriter &writer, uint64_t seq) {
  TemporaryFolder folder;
  ImportOptions options;
  options.batch = 2;
  options.seq = seq;
  return test::import(folder.write("model.onnx", writer.bytes()), options);
}

TEST(Branches, SizesChoose) {
  OnnxWriter writer = lookup();
  writer.integers("four", {}, {4});
  writer.node("Less", {"length", "four"}, {"isShort"});
  writer.node("If", {"isShort"}, {"y"},
              {{"then_branch", branch("Tanh", {"x"})}, {"else_branch", branch("Unknown", {"x"})}});
  finish(writer);
  Imported shorter = importWriter(writer, 3), longer = importWriter(writer, 5);
  ASSERT_TRUE(shorter.module) << shorter.errors;
  EXPECT_EQ(shorter.count("graph.tanh"), 1u);
  EXPECT_THAT(longer.errors, HasSubstr("Unknown"));
}

/// A branch within a branch, weights within it, names of the other branch, two outputs.
TEST(Branches, NestedOnesBringTheirWeights) {
  OnnxWriter inner;
  inner.floats("scale.weight", {H, H}, std::vector<float>(H * H, 1));
  inner.node("MatMul", {"s", "scale.weight"}, {"r"});
  inner.output("r", ElementType::F32, {"b", "s", H});
  OnnxWriter outer;
  outer.node("Tanh", {"x"}, {"s"});
  outer.node("If", {"always"}, {"t"}, {{"then_branch", inner.asGraph()}, {"else_branch", branch("Neg", {"s"})}});
  outer.output("t", ElementType::F32, {"b", "s", H});
  outer.output("s", ElementType::F32, {"b", "s", H});
  OnnxWriter other;
  other.node("Neg", {"x"}, {"s"});
  other.output("s", ElementType::F32, {"b", "s", H});
  other.output("x", ElementType::F32, {"b", "s", H});
  OnnxWriter writer = lookup();
  writer.booleans("always", {}, {true});
  writer.node("If", {"always"}, {"a", "c"}, {{"then_branch", outer.asGraph()}, {"else_branch", other.asGraph()}});
  writer.node("Add", {"a", "c"}, {"y"});
  finish(writer);
  Imported imported = importWriter(writer, 3);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.count("graph.tanh"), 1u);
  EXPECT_EQ(imported.count("graph.neg"), 0u);
  int index = imported.argument("scale.weight");
  ASSERT_GE(index, 0);
  EXPECT_TRUE(imported.forward().getArgAttr(index, "graph.source")) << "read where it stands, within the branch";
}

TEST(Branches, DataMayNotChoose) {
  OnnxWriter writer = lookup();
  writer.node("ReduceMax", {"input_ids"}, {"largest"}, {{"keepdims", int64_t(0)}});
  writer.node("Equal", {"largest", "one"}, {"isOne"});
  writer.node("If", {"isOne"}, {"y"}, {{"then_branch", branch("Tanh", {"x"})}, {"else_branch", branch("Neg", {"x"})}},
              "", "decide");
  finish(writer);
  EXPECT_THAT(importWriter(writer, 3).errors,
              HasSubstr("node 'decide' (If): its condition 'isOne' depends on tokens or weights"));
}

TEST(Branches, BothAreNeeded) {
  OnnxWriter writer = lookup();
  writer.booleans("always", {}, {true});
  writer.node("If", {"always"}, {"y"}, {{"then_branch", branch("Tanh", {"x"})}}, "", "half");
  finish(writer);
  EXPECT_THAT(importWriter(writer, 3).errors, HasSubstr("node 'half' (If) needs one condition, and two branches"));
}

} // namespace
} // namespace ztc::test::branches
