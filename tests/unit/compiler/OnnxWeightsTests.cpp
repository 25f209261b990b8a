// A graph's weights held against a checkpoint: each transformation that exporters leave behind is found and undone, and
// without the rule that knows it the import stops instead of training other numbers.
#include "CheckpointValues.h"
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using importer::WeightRules;

namespace ztc::test::weights {
namespace {

constexpr int64_t V = 12, H = 8;

/// What TorchScript writes of: embedding, a norm's scale, two projections that are added, the head.
struct Weights {
  std::vector<float> table = values(V * H, 1), norm = values(H, 2), a = values(H * H, 3), b = values(H * H, 4),
                     head = values(V * H, 5);
};

class WeightsModel : public testing::Test {
protected:
  void SetUp() override { setenv("ZTC_CACHE", (folder.path / "cache").c_str(), 1); }

  /// The graph, with these values in its initializers, all but the table's without their names.
  std::string graph(const Weights &w) {
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {1, 4});
    writer.output("logits", ElementType::F32, {1, 4, V});
    writer.floats("model.embed_tokens.weight", {V, H}, w.table);
    writer.floats("onnx::Mul_1", {H}, w.norm);
    writer.floats("onnx::MatMul_2", {H, H}, transposed(w.a, H, H));
    writer.floats("onnx::MatMul_3", {H, H}, transposed(w.b, H, H));
    writer.floats("onnx::MatMul_4", {H, V}, transposed(w.head, V, H));
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
    writer.node("Mul", {"x", "onnx::Mul_1"}, {"y"}, {}, "", "/model/norm/Mul");
    writer.node("MatMul", {"y", "onnx::MatMul_2"}, {"p"}, {}, "", "/model/layers.0/a/MatMul");
    writer.node("MatMul", {"y", "onnx::MatMul_3"}, {"q"}, {}, "", "/model/layers.0/b/MatMul");
    writer.node("Add", {"p", "q"}, {"z"}, {}, "", "/model/layers.0/Add");
    writer.node("MatMul", {"z", "onnx::MatMul_4"}, {"logits"}, {}, "", "/lm_head/MatMul");
    return folder.write("model.onnx", writer.bytes());
  }

  static std::vector<Stored> plainCheckpoint(const Weights &w) {
    return {{"lm_head.weight", {V, H}, w.head},
            {"model.embed_tokens.weight", {V, H}, w.table},
            {"model.layers.0.a.weight", {H, H}, w.a},
            {"model.layers.0.b.weight", {H, H}, w.b},
            {"model.norm.weight", {H}, w.norm}};
  }

  Imported against(const std::string &onnx, const std::string &checkpoint, WeightRules rules = {}) {
    ImportOptions options;
    options.weights = folder.write("model.safetensors", checkpoint);
    options.weightRules = rules;
    return import(onnx, options);
  }

  TemporaryFolder folder;
};

TEST_F(WeightsModel, TheCheckpointItself) {
  Weights w;
  std::string onnx = graph(w);
  Imported imported = against(onnx, safetensors(plainCheckpoint(w)));
  expectSameLogits(onnx, imported);
  EXPECT_EQ(imported.report.comparison, "the same checkpoint: 5 of 5 tensors agree");
  EXPECT_TRUE(imported.report.notes.empty());
}

/// A projection with its heads in a dimension of their own, without a checkpoint that names it: what data are
/// multiplied by is trained.
TEST_F(WeightsModel, MatricesOfMoreDimensionsAreTrained) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {1, 4});
  writer.output("logits", ElementType::F32, {1, 4, V});
  writer.floats("model.embed_tokens.weight", {V, H}, values(V * H, 1));
  writer.floats("model.layers.0.wq", {H, 2, 4}, values(H * H, 2));
  writer.floats("model.layers.0.experts", {2, 4, H}, values(H * H, 3));
  writer.floats("lm_head.weight", {V, H}, values(V * H, 4));
  writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"});
  writer.node("Einsum", {"x", "model.layers.0.wq"}, {"q"}, {{"equation", std::string("bsw,whd->bhsd")}});
  writer.node("MatMul", {"q", "model.layers.0.experts"}, {"y"});
  writer.node("ReduceSum", {"y", "heads"}, {"z"}, {{"keepdims", int64_t(0)}});
  writer.integers("heads", {1}, {1});
  writer.node("Transpose", {"lm_head.weight"}, {"head"}, {{"perm", std::vector<int64_t>{1, 0}}});
  writer.node("MatMul", {"z", "head"}, {"logits"});
  Imported imported = import(folder.write("model.onnx", writer.bytes()));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_NE(imported.argument("model.layers.0.wq"), -1);
  EXPECT_NE(imported.argument("model.layers.0.experts"), -1);
}

TEST_F(WeightsModel, OnePlusWeight) {
  Weights w, folded;
  folded.norm = mapped(w.norm, [](float x) { return 1 + x; });
  std::string onnx = graph(folded), checkpoint = safetensors(plainCheckpoint(w));
  Imported imported = against(onnx, checkpoint);
  expectSameLogits(onnx, imported);
  WeightRules rules;
  rules.shift = false;
  expectError(against(onnx, checkpoint, rules), "model.norm.weight ('onnx::Mul_1') (8)");
}

TEST_F(WeightsModel, ScaleInAProjectionAndInTheTable) {
  Weights w, folded;
  folded.a = mapped(w.a, [](float x) { return 0.35355339f * x; });
  folded.table = mapped(w.table, [](float x) { return 12.0f * x; });
  std::string onnx = graph(folded), checkpoint = safetensors(plainCheckpoint(w));
  Imported imported = against(onnx, checkpoint);
  expectSameLogits(onnx, imported);
  WeightRules rules;
  rules.scale = false;
  expectError(against(onnx, checkpoint, rules), "model.layers.0.a.weight ('onnx::MatMul_2') (8, 8)");
}

TEST_F(WeightsModel, JoinedProjection) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  tensors[2] = {"model.layers.0.k.weight", {3, H}, {w.a.begin(), w.a.begin() + 3 * H}};
  tensors.push_back({"model.layers.0.q.weight", {5, H}, {w.a.begin() + 3 * H, w.a.end()}});
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_EQ(imported.argument("model.layers.0.a.weight"), -1);
  EXPECT_NE(imported.argument("model.layers.0.q.weight"), -1);
  WeightRules rules;
  rules.join = false;
  expectError(against(onnx, safetensors(tensors), rules), "has no tensor of this name or of these values");
}

TEST_F(WeightsModel, JoinedColumns) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  Stored left{"model.layers.0.left.weight", {H, 3}, {}}, right{"model.layers.0.right.weight", {H, 5}, {}};
  for (int64_t r = 0; r < H; ++r)
    for (int64_t c = 0; c < H; ++c)
      (c < 3 ? left : right).values.push_back(w.a[r * H + c]);
  tensors[2] = left;
  tensors.push_back(right);
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_NE(imported.argument("model.layers.0.right.weight"), -1);
  right.values[7] += 1e-5f;
  tensors.back() = right;
  expectError(against(onnx, safetensors(tensors)), "model.layers.0.a.weight ('onnx::MatMul_2') (8, 8)");
}

TEST_F(WeightsModel, SplitColumns) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  Stored fused{"model.layers.0.ab.weight", {H, 2 * H}, {}};
  for (int64_t r = 0; r < H; ++r)
    for (int64_t c = 0; c < 2 * H; ++c)
      fused.values.push_back(c < H ? w.a[r * H + c] : w.b[r * H + c - H]);
  tensors[2] = fused;
  tensors.erase(tensors.begin() + 3);
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  int index = imported.argument("model.layers.0.ab.weight");
  ASSERT_NE(index, -1);
  EXPECT_EQ(imported.report.weights.size(), 4u) << "both halves are one parameter";
}

TEST_F(WeightsModel, OneMatrixOfAStack) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  Stored stack{"model.layers.0.ab.weight", {2, H, H}, w.a};
  stack.values.insert(stack.values.end(), w.b.begin(), w.b.end());
  tensors[2] = stack;
  tensors.erase(tensors.begin() + 3);
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_EQ(imported.report.weights.size(), 4u);
  WeightRules rules;
  rules.range = false;
  expectError(against(onnx, safetensors(tensors), rules), "model.layers.0.b.weight");
}

TEST_F(WeightsModel, SplitProjection) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  Stored fused{"model.layers.0.ab.weight", {2 * H, H}, w.a};
  fused.values.insert(fused.values.end(), w.b.begin(), w.b.end());
  tensors[2] = fused;
  tensors.erase(tensors.begin() + 3);
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_EQ(imported.report.weights.size(), 4u) << "both halves are one parameter";
  WeightRules rules;
  rules.range = false;
  expectError(against(onnx, safetensors(tensors), rules), "model.layers.0.b.weight");
}

TEST_F(WeightsModel, LostNameIsFoundByValue) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  tensors[0].name = "embed_out.weight";
  tensors[3].name = "model.layers.0.other.weight";
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_NE(imported.argument("model.layers.0.other.weight"), -1);
  EXPECT_NE(imported.argument("embed_out.weight"), -1) << "the name that is exported is the checkpoint's";
  WeightRules rules;
  rules.byValue = false;
  expectError(against(onnx, safetensors(tensors), rules), "model.layers.0.b.weight");
}

TEST_F(WeightsModel, NamesThatStandForOneAnotherAreFollowedByValue) {
  Weights w;
  std::string onnx = graph(w);
  std::vector<Stored> tensors = plainCheckpoint(w);
  std::swap(tensors[2].name, tensors[3].name);
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
}

TEST_F(WeightsModel, NarrowCheckpoint) {
  Weights w;
  std::string onnx = graph(w), checkpoint = safetensors(plainCheckpoint(w), plan::BF16);
  Imported imported = against(onnx, checkpoint);
  EXPECT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.comparison, "the same checkpoint: 5 of 5 tensors agree");
}

TEST_F(WeightsModel, WithoutTheRuleForTypesOrTransposesNothingIsTaken) {
  Weights w;
  std::string onnx = graph(w);
  WeightRules rules;
  rules.cast = false;
  expectError(against(onnx, safetensors(plainCheckpoint(w), plan::BF16), rules), "0 of 5 tensors agree");
  rules = {};
  rules.transpose = false; // three of five look like other weights, and it says so
  Imported imported = against(onnx, safetensors(plainCheckpoint(w)), rules);
  EXPECT_NE(imported.report.comparison.find("another checkpoint than the graph was exported from: 2 of 5"),
            std::string::npos)
      << imported.report.comparison;
}

TEST_F(WeightsModel, WhatIsFoldedIsHeldAgainstEveryElement) {
  Weights w, folded;
  folded.norm = mapped(w.norm, [](float x) { return 1 + x; });
  folded.a = mapped(w.a, [](float x) { return 0.35355339f * x; });
  folded.norm[5] += 1e-5f;
  folded.a[43] += 1e-5f;
  Imported imported = against(graph(folded), safetensors(plainCheckpoint(w)));
  expectError(imported, "model.norm.weight ('onnx::Mul_1') (8)");
  expectError(imported, "model.layers.0.a.weight ('onnx::MatMul_2') (8, 8)");
}

TEST_F(WeightsModel, AHeadThatIsNotTheTableIsNotTied) {
  Weights w;
  w.head = w.table;
  std::vector<Stored> tensors = plainCheckpoint(w);
  tensors.erase(tensors.begin()); // as a tied model is saved
  std::string onnx = graph(w);
  Imported tied = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, tied);
  EXPECT_EQ(tied.report.weights.size(), 4u);
  w.head[50] += 1e-5f;
  expectError(against(graph(w), safetensors(tensors)), "lm_head.weight ('onnx::MatMul_4') (8, 12)");
}

TEST_F(WeightsModel, TiedHeadScaledTable) {
  Weights w, folded;
  folded.head = w.table;
  folded.table = mapped(w.table, [](float x) { return 8.0f * x; });
  std::string onnx = graph(folded);
  std::vector<Stored> tensors = plainCheckpoint(w);
  tensors.erase(tensors.begin());
  Imported imported = against(onnx, safetensors(tensors));
  expectSameLogits(onnx, imported);
  EXPECT_EQ(imported.report.weights.size(), 4u) << "table and head are one parameter";
}

TEST_F(WeightsModel, OneChangedElementIsNamed) {
  Weights w, changed;
  changed.b[11] += 1e-5f;
  std::string onnx = graph(changed);
  Imported imported = against(onnx, safetensors(plainCheckpoint(w)));
  expectError(imported, "the same checkpoint: 4 of 5 tensors agree");
  expectError(imported,
              "model.layers.0.b.weight ('onnx::MatMul_3') (8, 8): 'model.layers.0.b.weight' of the checkpoint "
              "has shape (8, 8), and at (3, 1) the value");
  expectError(imported, "optimize=False");
  // The kept result says the same.
  expectError(against(onnx, safetensors(plainCheckpoint(w))), "and at (3, 1) the value");
}

TEST_F(WeightsModel, AnotherCheckpointNeedsProof) {
  Weights w;
  std::string onnx = graph(w);
  Weights tuned;
  for (std::vector<float> *tensor : {&tuned.table, &tuned.norm, &tuned.a, &tuned.b, &tuned.head})
    *tensor = mapped(*tensor, [](float x) { return 0.9f * x + 0.01f * std::sin(40 * x); });
  std::string checkpoint = safetensors(plainCheckpoint(tuned));
  // Something stands in the place of the norm's weight, and nothing says what.
  expectError(against(onnx, checkpoint), "another checkpoint than the graph was exported from: 0 of 5");
  folder.write("config.json", R"({"model_type": "gemma2"})");
  Imported imported = against(onnx, checkpoint);
  ASSERT_TRUE(imported.module) << imported.errors;
  Weights expected = tuned; // Gemma's norms multiply by 1 + w
  expected.norm = mapped(tuned.norm, [](float x) { return 1 + x; });
  std::string folded = graph(expected);
  // Without a checkpoint w is trained all the same: what the initializer has, less 1.
  Imported alone = import(folded);
  ASSERT_TRUE(alone.module) << alone.errors;
  std::filesystem::remove(folder.path / "config.json");
  expectSameLogits(folded, imported);
  expectSameLogits(folded, alone);
}

TEST_F(WeightsModel, WhatWasKeptLongAgoIsForgotten) {
  const std::filesystem::path cache = folder.path / "cache", old = cache / "weights-0.json",
                              young = cache / "weights-1.json";
  std::filesystem::create_directories(cache);
  for (const auto &file : {old, young})
    std::ofstream(file) << "[]";
  std::filesystem::last_write_time(old, std::filesystem::last_write_time(young) - std::chrono::hours(91 * 24));
  Weights w;
  EXPECT_TRUE(against(graph(w), safetensors(plainCheckpoint(w))).module);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young));
}

TEST_F(WeightsModel, AFactorThatAnotherCheckpointDoesNotTellIsRefused) {
  Weights w, folded, tuned;
  folded.a = mapped(w.a, [](float x) { return 0.35355339f * x; });
  for (std::vector<float> *tensor : {&tuned.table, &tuned.norm, &tuned.a, &tuned.b, &tuned.head})
    *tensor = mapped(*tensor, [](float x) { return x + 0.01f * std::sin(40 * x); });
  folded.norm = tuned.norm; // else the norm's weight is in doubt too
  Imported imported = against(graph(folded), safetensors(plainCheckpoint(tuned)));
  expectError(imported, "1 of 5 tensors agree");
  expectError(imported, "model.layers.0.a.weight ('onnx::MatMul_2') (8, 8): is about 0.35");
  EXPECT_EQ(imported.errors.find("layers.0.b.weight"), std::string::npos) << imported.errors;
  folded.a = w.a;
  EXPECT_TRUE(against(graph(folded), safetensors(plainCheckpoint(tuned))).module);
  // Weights that have nothing in common, of a family that nothing tells.
  for (std::vector<float> *tensor : {&tuned.table, &tuned.a, &tuned.b, &tuned.head})
    *tensor = values(int64_t(tensor->size()), unsigned(tensor->size()) + 30);
  std::string checkpoint = safetensors(plainCheckpoint(tuned));
  expectError(against(graph(folded), checkpoint), "only a config.json with a model_type could tell");
  folder.write("config.json", R"({"model_type": "llama"})");
  EXPECT_TRUE(against(graph(folded), checkpoint).module);
}

TEST_F(WeightsModel, ATieThatTheCheckpointDoesNotHave) {
  Weights w;
  w.head = w.table;
  std::string onnx = graph(w);
  Weights other;
  for (std::vector<float> *tensor : {&other.table, &other.norm, &other.a, &other.b, &other.head})
    *tensor = mapped(*tensor, [](float x) { return x + 0.01f * std::cos(30 * x); });
  folder.write("config.json", R"({"model_type": "gemma"})");
  expectError(against(onnx, safetensors(plainCheckpoint(other))), "the checkpoint holds two that differ");
}

} // namespace
} // namespace ztc::test::weights
