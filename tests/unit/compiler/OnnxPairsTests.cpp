// Constants that an exporter computed from two parameters, or from a parameter and positions: computed in the step
// again.
#include "CheckpointValues.h"
#include "frontends/onnx/WriteModel.h"
#include "gmock/gmock.h"
#include <cmath>
#include <limits>

using namespace ztc;
using namespace ztc::test;
using importer::ElementType;
using testing::Contains;
using testing::HasSubstr;

namespace ztc::test::pairs {
namespace {

constexpr int64_t V = 12, H = 8, S = 4;

class Pairs : public testing::Test {
protected:
  void SetUp() override { setenv("ZTC_CACHE", (folder.path / "cache").c_str(), 1); }

  /// x is (1, S, H): rows of a table; what `op` makes of it and the constant meets the head.
  std::string withConstant(const std::string &op, const std::vector<int64_t> &shape, const std::vector<float> &constant,
                           const std::string &name = "onnx::MatMul_9") const {
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {1, S});
    writer.output("logits", ElementType::F32, {1, S, V});
    writer.floats("model.embed_tokens.weight", {V, H}, table);
    writer.floats("model.head.weight", {H, V}, head);
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
    writer.floats(name, shape, constant);
    writer.node(op, {"x", name}, {"y"}, {}, "", "/model/layers.0/" + op);
    writer.node("MatMul", {"y", "model.head.weight"}, {"logits"}, {}, "", "/model/MatMul");
    return folder.write("model.onnx", writer.bytes());
  }
  Imported against(const std::string &onnx, std::vector<Stored> tensors, ImportOptions options = {}) const {
    tensors.push_back({"model.embed_tokens.weight", {V, H}, table});
    tensors.push_back({"model.head.weight", {H, V}, head});
    options.weights = folder.write("model.safetensors", safetensors(tensors));
    return import(onnx, options);
  }

  static std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, int64_t rows,
                                    int64_t inner, int64_t columns, float scale = 1) {
    std::vector<float> c(rows * columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += double(a[i * inner + k]) * b[k * columns + j];
        c[i * columns + j] = float(sum * scale);
      }
    return c;
  }
  /// g * v / |v| by rows.
  static std::vector<float> normed(const std::vector<float> &v, const std::vector<float> &g, int64_t rows) {
    std::vector<float> w(v);
    const int64_t width = int64_t(v.size()) / rows;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < width; ++j)
        sum += double(v[i * width + j]) * v[i * width + j];
      for (int64_t j = 0; j < width; ++j)
        w[i * width + j] = float(v[i * width + j] * double(g[i]) / std::sqrt(sum));
    }
    return w;
  }

  TemporaryFolder folder;
  const std::vector<float> table = values(V * H, 1), head = values(V * H, 2), v = values(H * H, 3), g = values(H, 4);
};

TEST_F(Pairs, WeightNormIsComputedAgain) {
  const std::string name = "model.layers.0.proj.parametrizations.weight.original";
  for (bool isTurned : {true, false}) {
    std::vector<float> w = normed(v, g, H);
    std::string onnx = withConstant("MatMul", {H, H}, isTurned ? transposed(w, H, H) : w);
    Imported imported = against(onnx, {{name + "0", {H, 1}, g}, {name + "1", {H, H}, v}});
    expectSameLogits(onnx, imported);
    EXPECT_GE(imported.argument(name + "0"), 0);
    EXPECT_GE(imported.argument(name + "1"), 0);
    EXPECT_THAT(imported.report.notes, Contains(HasSubstr("by value: both are trained")));
  }
}

TEST_F(Pairs, WeightNormThatIsAnotherIsRefused) {
  std::vector<float> w = normed(v, g, H);
  w[H * H - 1] *= 1.01f;
  std::string onnx = withConstant("MatMul", {H, H}, w);
  Imported imported =
      against(onnx, {{"model.layers.0.proj.weight_g", {H, 1}, g}, {"model.layers.0.proj.weight_v", {H, H}, v}});
  EXPECT_FALSE(imported.module);
}

TEST_F(Pairs, ProductOfNarrowMatricesIsComputedAgain) {
  const std::vector<float> a = values(H * 3, 5), b = values(3 * H, 6);
  for (float scale : {1.0f, 0.25f}) {
    std::string onnx = withConstant("MatMul", {H, H}, product(a, b, H, 3, H, scale));
    Imported imported =
        against(onnx, {{"model.layers.0.down.weight", {H, 3}, a}, {"model.layers.0.up.weight", {3, H}, b}});
    expectSameLogits(onnx, imported);
    EXPECT_GE(imported.argument("model.layers.0.down.weight"), 0);
    EXPECT_GE(imported.argument("model.layers.0.up.weight"), 0);
    // As linear layers store them: (out, in).
    Imported turned = against(onnx, {{"model.layers.0.down.weight", {3, H}, transposed(a, H, 3)},
                                     {"model.layers.0.up.weight", {H, 3}, transposed(b, 3, H)}});
    expectSameLogits(onnx, turned);
    EXPECT_GE(turned.argument("model.layers.0.up.weight"), 0);
  }
}

TEST_F(Pairs, MergedAdapterIsComputedAgain) {
  const std::vector<float> a = values(3 * H, 5), b = values(H * 3, 6), base = values(H * H, 7);
  std::vector<float> w = product(b, a, H, 3, H, 2.0f);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] += base[i];
  std::string onnx = withConstant("MatMul", {H, H}, transposed(w, H, H));
  const std::string module = "model.layers.0.q_proj.";
  Imported imported = against(onnx, {{module + "weight", {H, H}, base},
                                     {module + "lora_A.weight", {3, H}, a},
                                     {module + "lora_B.weight", {H, 3}, b}});
  expectSameLogits(onnx, imported);
  for (const char *part : {"weight", "lora_A.weight", "lora_B.weight"})
    EXPECT_GE(imported.argument(module + part), 0) << part;
}

TEST_F(Pairs, SlopesTimesDistancesAreComputedAgain) {
  const float hidden = -std::numeric_limits<float>::infinity();
  for (bool isExponential : {false, true}) {
    std::vector<float> constant;
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < S; ++i)
        for (int64_t j = 0; j < S; ++j) {
          float exponent = -std::exp(g[h]) * float(i - j);
          constant.push_back(j > i ? (isExponential ? 0 : hidden) : isExponential ? std::exp(exponent) : exponent);
        }
    // (H, S, S) and x (1, S, H): scores of a kind.
    OnnxWriter writer;
    writer.input("input_ids", ElementType::I64, {1, S});
    writer.output("logits", ElementType::F32, {1, S, V});
    writer.floats("model.embed_tokens.weight", {V, H}, table);
    writer.floats("model.head.weight", {H, V}, head);
    writer.floats("onnx::Add_9", {H, S, S}, constant);
    writer.integers("columns", {4}, {1, S, H, 1});
    writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
    writer.node("Reshape", {"x", "columns"}, {"x4"});
    writer.node("Transpose", {"x4"}, {"rows"}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}); // (1, H, S, 1)
    writer.node("Transpose", {"rows"}, {"turned"}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    writer.node("MatMul", {"rows", "turned"}, {"scores"});
    writer.node(isExponential ? "Mul" : "Add", {"scores", "onnx::Add_9"}, {"biased"});
    writer.node("Softmax", {"biased"}, {"shares"}, {{"axis", int64_t(-1)}});
    writer.node("MatMul", {"shares", "rows"}, {"seen"});
    writer.node("Transpose", {"seen"}, {"back"}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    writer.integers("whole", {3}, {1, S, H});
    writer.node("Reshape", {"back", "whole"}, {"y"});
    writer.node("MatMul", {"y", "model.head.weight"}, {"logits"}, {}, "", "/model/MatMul");
    std::string onnx = folder.write("model.onnx", writer.bytes());
    Imported imported = against(onnx, {{"model.layers.0.slope", {H}, g}});
    expectSameLogits(onnx, imported);
    EXPECT_GE(imported.argument("model.layers.0.slope"), 0);
    EXPECT_THAT(imported.report.notes, Contains(HasSubstr("times positions")));
  }
}

TEST_F(Pairs, NormsOfRowsAreComputedAgain) {
  OnnxWriter writer;
  writer.input("input_ids", ElementType::I64, {1, S});
  writer.output("logits", ElementType::F32, {1, S, V});
  writer.floats("model.embed_tokens.weight", {V, H}, table);
  writer.floats("model.head.weight", {H, V}, head);
  std::vector<float> norms;
  for (int64_t column = 0; column < V; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < H; ++row)
      sum += double(head[row * V + column]) * head[row * V + column];
    norms.push_back(float(std::sqrt(sum)));
  }
  writer.floats("onnx::Clip_9", {1, V}, norms);
  writer.node("Gather", {"model.embed_tokens.weight", "input_ids"}, {"x"}, {}, "", "/model/embed_tokens/Gather");
  writer.node("Div", {"model.head.weight", "onnx::Clip_9"}, {"unit"});
  writer.node("MatMul", {"x", "unit"}, {"logits"}, {}, "", "/model/MatMul");
  std::string onnx = folder.write("model.onnx", writer.bytes());
  Imported imported = against(onnx, {});
  expectSameLogits(onnx, imported);
  EXPECT_THAT(imported.report.notes, Contains(HasSubstr("the norm of each column of model.head.weight")));
  Imported alone = import(onnx);
  EXPECT_THAT(alone.report.notes, Contains(HasSubstr("the norm of each column of model.head.weight")));
}

TEST_F(Pairs, WhatDynamoCallsASumNeedsACheckpoint) {
  std::string onnx = withConstant("Mul", {H}, mapped(g, [](float x) { return 1 + x; }), "add_4");
  expectError(import(onnx), "the exporter computed model.layers.0.weight ('add_4' in the graph)");
  ImportOptions frozen;
  frozen.freeze = "layers.0";
  EXPECT_TRUE(import(onnx, frozen).module);
}

TEST_F(Pairs, ABoundedFunctionIsNoFunction) {
  std::vector<float> bounded = mapped(g, [](float x) { return std::min(std::exp(x), 100.0f); });
  std::string onnx = withConstant("Mul", {H}, bounded, "/model/layers.0/Clip_output_0");
  Imported imported = against(onnx, {{"model.layers.0.logit_scale", {H}, g}});
  expectError(imported, "weights do not fit the graph");
}

} // namespace
} // namespace ztc::test::pairs
