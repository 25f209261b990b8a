// What inputs and outputs are for, whatever they are called; tables beside the model; wrappers' prefixes; onnxruntime's
// own operators.
#include "OnnxHarness.h"
#include "frontends/onnx/Names.h"
#include "frontends/onnx/Roles.h"
#include "gmock/gmock.h"
#include <cmath>

using namespace ztc;
using namespace ztc::importer;
using namespace ztc::test;
using testing::HasSubstr;

namespace ztc::test::roles {
namespace {

/// tokens -> x (B, S, 4) by a table of 7 rows; the logits are x times "head" (4, 7).
OnnxWriter lookup(const std::string &tokens) {
  OnnxWriter writer;
  writer.input(tokens, ElementType::I64, {"b", "s"});
  writer.floats("table", {7, 4}, std::vector<float>(28, 0.5f));
  writer.floats("head", {4, 7}, std::vector<float>(28, 0.25f));
  writer.node("Gather", {"table", tokens}, {"x"}, {}, "model.embed_tokens");
  return writer;
}

ImportOptions sized(uint64_t batch = 2, uint64_t seq = 3) {
  ImportOptions options;
  options.batch = batch;
  options.seq = seq;
  return options;
}

Imported importText(const OnnxWriter &writer, const ImportOptions &options = sized()) {
  TemporaryFolder folder;
  return test::import(folder.write("model.onnx", writer.bytes()), options);
}

std::string roleOf(const Imported &imported, const std::string &name) {
  for (const auto *ports : {&imported.report.inputs, &imported.report.outputs})
    for (const ImportReport::Port &port : *ports)
      if (port.name == name)
        return port.role;
  return "none";
}

/// One tensor given as tokens and as labels: PyTorch reads one of the two inputs, and of the other only the shape.
TEST(OnnxRoles, AnInputWhoseShapeAloneIsAskedFor) {
  OnnxWriter writer = lookup("labels");
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.node("Shape", {"input_ids"}, {"shape"});
  writer.node("MatMul", {"x", "head"}, {"wide"}, {}, "lm_head");
  writer.integers("columns", {1}, {7});
  writer.node("Concat", {"shape", "columns"}, {"wanted"}, {{"axis", int64_t(0)}});
  writer.node("Reshape", {"wide", "wanted"}, {"logits"});
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  Imported imported = importText(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(roleOf(imported, "labels"), "tokens");
  EXPECT_EQ(roleOf(imported, "input_ids"), "zeros");
}

TEST(OnnxRoles, LossFirstThenKeysThenLogitsOfAnyName) {
  OnnxWriter writer = lookup("words");
  writer.input("targets", ElementType::I64, {"b", "s"});
  writer.node("MatMul", {"x", "head"}, {"scores"}, {}, "lm_head");
  writer.node("Cast", {"targets"}, {"as_floats"}, {{"to", int64_t(1)}});
  writer.node("NonZero", {"as_floats"}, {"unknown"}); // what ztc cannot import is not needed
  writer.node("ReduceSum", {"scores"}, {"sum"}, {{"keepdims", int64_t(0)}});
  writer.node("ReduceSum", {"as_floats"}, {"sum_of_targets"}, {{"keepdims", int64_t(0)}});
  writer.node("Add", {"sum", "sum_of_targets"}, {"objective"});
  writer.output("objective", ElementType::F32, {});
  writer.output("x", ElementType::F32, {"b", "s", int64_t(4)});
  writer.output("scores", ElementType::F32, {"b", "s", int64_t(7)});
  Imported imported = importText(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(roleOf(imported, "words"), "tokens");
  EXPECT_EQ(roleOf(imported, "scores"), "logits");
  EXPECT_EQ(roleOf(imported, "x"), "other");
  EXPECT_EQ(imported.report.vocabulary, 7);
}

/// The exporter gives the loss' labels to the embedding too where both were one tensor: the use decides.
TEST(OnnxRoles, TokensAreWhatIndexesTheTable) {
  OnnxWriter writer = lookup("labels");
  writer.input("input_ids", ElementType::I64, {"b", "s"});
  writer.node("MatMul", {"x", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  Imported imported = importText(writer);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(roleOf(imported, "labels"), "tokens");
  EXPECT_EQ(roleOf(imported, "input_ids"), "unused");
}

TEST(OnnxRoles, PositionsMaskAndPastOfAnyName) {
  OnnxWriter writer = lookup("a");
  writer.input("b1", ElementType::I64, {"b", "s"});
  writer.input("c", ElementType::I64, {"b", "t"});
  writer.input("k0", ElementType::F32, {"b", int64_t(1), "p", int64_t(4)});
  writer.floats("places", {9, 4}, std::vector<float>(36, 0.125f));
  writer.node("Gather", {"places", "b1"}, {"p"}, {}, "model.embed_positions"); // rows 0 to S - 1
  writer.node("Add", {"x", "p"}, {"sum"});
  writer.node("Cast", {"c"}, {"seen"}, {{"to", int64_t(9)}}); // ones: all of them are seen
  writer.integers("last", {1}, {2});
  writer.node("Unsqueeze", {"seen", "last"}, {"column"});
  writer.floats("zero", {}, {0});
  writer.node("Where", {"column", "sum", "zero"}, {"hidden"});
  writer.integers("second", {1}, {1});
  writer.node("Unsqueeze", {"hidden", "second"}, {"key"});
  writer.node("Concat", {"k0", "key"}, {"keys"}, {{"axis", int64_t(2)}});
  writer.node("Squeeze", {"keys", "second"}, {"y"});
  writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", writer.bytes()), sized());
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(roleOf(imported, "a"), "tokens");
  EXPECT_EQ(roleOf(imported, "b1"), "position_ids");
  EXPECT_EQ(roleOf(imported, "c"), "attention_mask");
  EXPECT_EQ(roleOf(imported, "k0"), "past");
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_DOUBLE_EQ(logits->reals[0], 4 * (0.5 + 0.125) * 0.25);
}

TEST(OnnxRoles, WhatCannotBeProvenAsksForTheOption) {
  OnnxWriter writer = lookup("one");
  writer.input("two", ElementType::I64, {"b", "s"});
  writer.node("Gather", {"table", "two"}, {"z"}, {}, "model.embed_tokens");
  writer.node("Add", {"x", "z"}, {"sum"});
  writer.node("MatMul", {"sum", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  Imported ambiguous = importText(writer);
  EXPECT_FALSE(ambiguous.module);
  EXPECT_THAT(ambiguous.errors, HasSubstr("--input=tokens=NAME"));
  ImportOptions options = sized();
  options.inputRoles = {"tokens=one", "zeros=two"};
  Imported decided = importText(writer, options);
  ASSERT_TRUE(decided.module) << decided.errors;
  EXPECT_EQ(roleOf(decided, "two"), "zeros");
  options.inputRoles = {"tokens=three"};
  EXPECT_THAT(importText(writer, options).errors, HasSubstr("no input of this name"));
  options.inputRoles = {"token=one"};
  EXPECT_THAT(importText(writer, options).errors, HasSubstr("is not ROLE=NAME"));
}

TEST(OnnxRoles, SeveralLogitsAskForTheOption) {
  OnnxWriter writer = lookup("ids");
  writer.node("MatMul", {"x", "head"}, {"first"}, {}, "lm_head");
  writer.node("Mul", {"first", "first"}, {"second"});
  writer.output("first", ElementType::F32, {"b", "s", int64_t(7)});
  writer.output("second", ElementType::F32, {"b", "s", int64_t(7)});
  EXPECT_THAT(importText(writer).errors, HasSubstr("--input=logits=NAME"));
  ImportOptions options = sized();
  options.inputRoles = {"logits=second"};
  Imported decided = importText(writer, options);
  ASSERT_TRUE(decided.module) << decided.errors;
  EXPECT_EQ(decided.count("graph.mul"), 1u);
}

TEST(OnnxRoles, EmbeddingsWithoutTokens) {
  OnnxWriter writer;
  writer.input("inputs_embeds", ElementType::F32, {"b", "s", int64_t(4)});
  writer.floats("head", {4, 7}, std::vector<float>(28, 0.25f));
  writer.node("MatMul", {"inputs_embeds", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  EXPECT_THAT(importText(writer).errors, HasSubstr("looks up no tokens"));
}

TEST(OnnxRoles, PastOfAFixedLengthIsRefused) {
  OnnxWriter writer = lookup("ids");
  writer.input("cache", ElementType::F32, {"b", int64_t(16), int64_t(4)});
  writer.node("Concat", {"cache", "x"}, {"y"}, {{"axis", int64_t(1)}});
  writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {});
  EXPECT_THAT(importText(writer).errors, HasSubstr("fixed length 16"));
}

/// A table that is not a parameter, in a file beside the model: read where it is there, else one message.
TEST(OnnxRoles, TablesBesideTheModel) {
  OnnxWriter writer = lookup("ids");
  writer.external("angles", {1, 3, 4}, "model.onnx.data", 8);
  writer.node("Mul", {"x", "angles"}, {"turned"});
  writer.node("MatMul", {"turned", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  TemporaryFolder folder;
  std::string path = folder.write("model.onnx", writer.bytes());
  Imported without = test::import(path, sized());
  EXPECT_FALSE(without.module);
  EXPECT_THAT(without.errors, HasSubstr("model.onnx.data is not there"));
  std::vector<float> values(14, 3.0f);
  folder.write("model.onnx.data", std::string(reinterpret_cast<const char *>(values.data()), 56));
  Imported with = test::import(path, sized());
  ASSERT_TRUE(with.module) << with.errors;
  std::optional<Tensor> logits = forwardLogits(with, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_DOUBLE_EQ(logits->reals[0], 4 * 0.5 * 3 * 0.25);
  folder.write("model.onnx.data", std::string(40, 'x'));
  EXPECT_THAT(test::import(path, sized()).errors, HasSubstr("is truncated"));
}

TEST(OnnxRoles, PrefixesOfWrappers) {
  auto nameOf = [](const std::vector<std::string> &all, const std::string &asked,
                   const std::vector<std::string> &checkpoint = {}) {
    Model model;
    for (const std::string &name : all) {
      Initializer initializer;
      initializer.name = name;
      model.initializers.push_back(initializer);
    }
    return Names(model, checkpoint).checkpointName(asked);
  };
  EXPECT_EQ(nameOf({"net.model.norm.weight", "net.lm_head.weight"}, "net.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(nameOf({"module._orig_mod.model.norm.weight", "module._orig_mod.lm_head.weight"},
                   "module._orig_mod.model.norm.weight"),
            "model.norm.weight");
  EXPECT_EQ(nameOf({"base_model.model.model.norm.weight", "base_model.model.lm_head.weight"},
                   "base_model.model.model.norm.weight"),
            "model.norm.weight");
  EXPECT_EQ(nameOf({"model.embed_tokens.weight", "model.norm.weight"}, "model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(nameOf({"model.decoder.norm.weight", "model.decoder.embed.weight"}, "model.decoder.norm.weight"),
            "model.decoder.norm.weight");
  // A checkpoint decides: the same names with a prefix more and one less.
  EXPECT_EQ(nameOf({"layers.0.norm.weight", "norm.weight"}, "layers.0.norm.weight",
                   {"model.layers.0.norm.weight", "model.norm.weight"}),
            "model.layers.0.norm.weight");
  EXPECT_EQ(nameOf({"model.transformer.ln.weight", "model.transformer.wte.weight"}, "model.transformer.ln.weight",
                   {"model.transformer.ln.weight", "model.transformer.wte.weight"}),
            "model.transformer.ln.weight");
}

TEST(OnnxContrib, SkipNormHandsTheSumOn) {
  OnnxWriter writer = lookup("ids");
  writer.floats("gain", {4}, {1, 2, 3, 4});
  writer.node("com.microsoft::SkipSimplifiedLayerNormalization", {"x", "x", "gain"}, {"y", "", "", "sum"},
              {{"epsilon", 1e-12f}}, "model.norm");
  writer.node("Add", {"y", "sum"}, {"z"});
  writer.node("MatMul", {"z", "head"}, {"logits"}, {}, "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", writer.bytes()), sized());
  ASSERT_TRUE(imported.module) << imported.errors;
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_NEAR(logits->reals[0], ((1 + 2 + 3 + 4) + 4 * 1.0) * 0.25, 1e-6); // x + x = 1 in each of four places
}

TEST(OnnxContrib, FusedMatMulAndQuickGelu) {
  OnnxWriter writer = lookup("ids");
  writer.node("com.microsoft::QuickGelu", {"x"}, {"y"}, {{"alpha", 2.0f}});
  writer.floats("turned", {7, 4}, std::vector<float>(28, 0.25f));
  writer.node("com.microsoft::FusedMatMul", {"y", "turned"}, {"logits"}, {{"alpha", 3.0f}, {"transB", int64_t(1)}},
              "lm_head");
  writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
  TemporaryFolder folder;
  Imported imported = test::import(folder.write("model.onnx", writer.bytes()), sized());
  ASSERT_TRUE(imported.module) << imported.errors;
  std::optional<Tensor> logits = forwardLogits(imported, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(logits);
  EXPECT_NEAR(logits->reals[0], 3 * 4 * 0.25 * (0.5 / (1 + std::exp(-1.0))), 1e-6);
}

/// One position sees itself only: the result is its value, the sink takes its share.
TEST(OnnxContrib, GroupQueryAttentionWithPackedOperands) {
  for (bool hasSink : {false, true}) {
    OnnxWriter writer = lookup("ids");
    writer.input("seqlens", ElementType::I32, {"b"});
    writer.input("total", ElementType::I32, {});
    std::vector<float> packed(4 * 8, 0.0f); // q (2 heads of 2), k (1), v (1): x is 0.5 everywhere
    for (int i = 0; i < 4; ++i) {
      packed[i * 8 + 6] = 1;
      packed[i * 8 + 7] = 2;
    }
    writer.floats("qkv", {4, 8}, packed);
    writer.floats("sink", {2}, {0, 0});
    writer.floats("cos", {5, 1}, {1, 0.5f, 0, 0, 0});
    writer.floats("sin", {5, 1}, {0, 0.5f, 1, 1, 1});
    writer.node("MatMul", {"x", "qkv"}, {"p"});
    writer.node("com.microsoft::GroupQueryAttention",
                {"p", "", "", "", "", "seqlens", "total", "cos", "sin", "", "", hasSink ? "sink" : ""}, {"y", "", ""},
                {{"num_heads", int64_t(2)}, {"kv_num_heads", int64_t(1)}, {"do_rotary", int64_t(1)}});
    writer.node("MatMul", {"y", "head"}, {"logits"}, {}, "lm_head");
    writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
    TemporaryFolder folder;
    Imported imported = test::import(folder.write("model.onnx", writer.bytes()), sized(1, 1));
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(roleOf(imported, "seqlens"), "sequence_lengths");
    EXPECT_EQ(roleOf(imported, "total"), "total_length");
    std::optional<Tensor> logits = forwardLogits(imported, {3});
    ASSERT_TRUE(logits);
    double share = hasSink ? 0.5 : 1; // scores are 0, as the sink's
    EXPECT_NEAR(logits->reals[0], share * (2 + 4 + 2 + 4) * 0.25, 1e-6);
  }
}

} // namespace
} // namespace ztc::test::roles
