// Parameters that a graph has twice or under another name: matrices read straight and transposed, tensors that modules
// share, what exporters computed.
#include "OnnxHarness.h"
#include "gmock/gmock.h"
#include <cmath>

using namespace ztc;
using namespace ztc::importer;
using namespace ztc::test;
using testing::Contains;
using testing::HasSubstr;

namespace ztc::test::ties {
namespace {

std::vector<float> numbers(int64_t count, unsigned seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = float(std::sin(double(i + 1) * 12.9898 + double(seed) * 78.233));
  return result;
}

std::vector<float> transposed(const std::vector<float> &matrix, int64_t rows, int64_t columns) {
  std::vector<float> result(matrix.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      result[size_t(c * rows + r)] = matrix[size_t(r * columns + c)];
  return result;
}

/// tokens -> x (B, S, 4), logits = y times a head.
struct Decoder {
  OnnxWriter writer;

  Decoder() {
    writer.input("tokens", ElementType::I64, {"b", "s"});
    writer.floats("embed.weight", {7, 4}, numbers(28, 1));
    writer.node("Gather", {"embed.weight", "tokens"}, {"x"}, {}, "embed");
  }
  Imported finish(const std::string &y) {
    writer.floats("head.weight", {4, 7}, numbers(28, 2));
    writer.node("MatMul", {y, "head.weight"}, {"logits"}, {}, "head");
    writer.output("logits", ElementType::F32, {"b", "s", int64_t(7)});
    ImportOptions options;
    options.batch = 2;
    options.seq = 3;
    return test::import(folder.write("model.onnx", writer.bytes()), options);
  }
  TemporaryFolder folder;
};

/// relu(x w) w^T, as an exporter writes it that computes the transpose.
Imported readBothWays(const std::vector<float> &w, int64_t width, const std::string &name) {
  Decoder decoder;
  decoder.writer.floats("layers.0.w", {4, width}, w);
  decoder.writer.floats(name, {width, 4}, transposed(w, 4, width));
  decoder.writer.node("MatMul", {"x", "layers.0.w"}, {"h"}, {}, "layers.0");
  decoder.writer.node("Relu", {"h"}, {"r"}, {}, "layers.0");
  decoder.writer.node("MatMul", {"r", name}, {"y"}, {}, "layers.0");
  return decoder.finish("y");
}

TEST(OnnxTies, AMatrixReadStraightAndTransposedIsOneParameter) {
  for (const char *name : {"onnx::MatMul_12", "val_12"}) {
    SCOPED_TRACE(name);
    Imported imported = readBothWays(numbers(12, 3), 3, name);
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(imported.report.weights.size(), 3U);
    EXPECT_THAT(imported.report.notes, Contains(HasSubstr("is the transpose of layers.0.w, by value: trained as one")));
    const int w = imported.argument("layers.0.w");
    ASSERT_GE(w, 0);
    EXPECT_EQ(std::distance(imported.forward().getArgument(unsigned(w)).use_begin(),
                            imported.forward().getArgument(unsigned(w)).use_end()),
              2);
  }
}

TEST(OnnxTies, AMatrixThatIsItsOwnTransposeSaysNothing) {
  const std::vector<float> one{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  Imported imported = readBothWays(one, 4, "onnx::MatMul_12");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.weights.size(), 4U);
}

TEST(OnnxTies, ATensorThatModulesShareHasBothNames) {
  Decoder decoder;
  decoder.writer.signature({"embed.weight", "layers.0.q.weight", "layers.1.q.weight", "head.weight"});
  decoder.writer.floats("layers.0.q.weight", {4, 4}, numbers(16, 3));
  decoder.writer.node("MatMul", {"x", "layers.0.q.weight"}, {"h"}, {}, "layers.0.q");
  decoder.writer.node("Relu", {"h"}, {"r"}, {}, "layers.0");
  decoder.writer.node("MatMul", {"r", "layers.0.q.weight"}, {"y"}, {}, "layers.1.q");
  Imported imported = decoder.finish("y");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(imported.report.weights.size(), 3U);
  EXPECT_THAT(imported.report.notes, Contains("layers.1.q.weight is layers.0.q.weight, which its module shares"));
}

TEST(OnnxTies, WhatAnExporterComputedIsNotTrainedApart) {
  Decoder decoder;
  decoder.writer.signature({"embed.weight", "layers.0.w", "head.weight"});
  std::vector<float> w = numbers(12, 3), half = transposed(w, 4, 3);
  for (float &x : half)
    x /= 2;
  decoder.writer.floats("layers.0.w", {4, 3}, w);
  decoder.writer.floats("val_9", {3, 4}, half);
  decoder.writer.node("MatMul", {"x", "layers.0.w"}, {"h"}, {}, "layers.0");
  decoder.writer.node("MatMul", {"h", "val_9"}, {"y"}, {}, "layers.0");
  Imported imported = decoder.finish("y");
  EXPECT_FALSE(imported.module);
  EXPECT_THAT(imported.errors,
              HasSubstr("no parameter of the exported module: the exporter computed it from parameters "
                        "or buffers, and it would be trained apart from them"));
}

} // namespace
} // namespace ztc::test::ties
