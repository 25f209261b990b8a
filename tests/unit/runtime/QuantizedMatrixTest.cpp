// Weights in fewer bits that loading dequantises, against the libraries that write them
// (tests/golden/quantized-checkpoints, made by quantized_checkpoints.py there).
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Format/QuantizedMatrices.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

namespace ztc {
namespace {

const std::filesystem::path kPlace =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/quantized-checkpoints";

struct GoldenFolder {
  explicit GoldenFolder(const std::string &name)
      : files(std::move(*SafetensorsCollection::open(kPlace / name))),
        matrices(files, quantizationConfigOf(kPlace / name)),
        sha256(parseJson(*readWholeFile(kPlace / name / "golden.json"))["sha256"]) {}

  SafetensorsCollection files;
  QuantizedMatrices matrices;
  nlohmann::json sha256; ///< of each weight in f32, by name
};

std::vector<float> wholeOf(const QuantizedMatrix &matrix) {
  std::vector<float> values(matrix.elements());
  matrix.read(0, values.size(), values.data());
  return values;
}

class QuantizedMatrixTest : public testing::TestWithParam<const char *> {};

TEST_P(QuantizedMatrixTest, EachNumberIsThatOfTheLibrary) {
  const GoldenFolder folder(GetParam());
  ASSERT_EQ(folder.matrices.all().size(), folder.sha256.size());
  for (const auto &[name, matrix] : folder.matrices.all()) {
    ASSERT_EQ(matrix.problem, "") << name;
    std::vector<float> values = wholeOf(matrix);
    for (float &value : values)
      value += 0.0f; // a zero of either sign is one
    Sha256 sum;
    sum.update(values.data(), values.size() * sizeof(float));
    EXPECT_EQ(Sha256::hex(sum.finish()), folder.sha256[name].get<std::string>()) << name << " in " << matrix.format;
  }
}

TEST_P(QuantizedMatrixTest, AnyPieceIsReadAsTheWhole) {
  const GoldenFolder folder(GetParam());
  std::mt19937_64 random(7); // its numbers are the standard's
  for (const auto &[name, matrix] : folder.matrices.all()) {
    const std::vector<float> whole = wholeOf(matrix);
    for (int i = 0; i < 40; ++i) {
      const uint64_t begin = random() % whole.size(), most = i % 2 ? whole.size() - begin : 200;
      const uint64_t count = std::min(random() % most + 1, whole.size() - begin);
      std::vector<float> piece(count + 1, -77.0f);
      matrix.read(begin, count, piece.data());
      EXPECT_TRUE(std::equal(piece.begin(), piece.end() - 1, whole.begin() + int64_t(begin)))
          << name << " from " << begin << ", " << count;
      EXPECT_EQ(piece.back(), -77.0f) << "written beyond the piece";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, QuantizedMatrixTest,
                         testing::Values("fp8-blocks", "fp8-ragged", "fp8-powers", "fp8-static", "fp8-rows", "gpt-oss",
                                         "gptq-3", "gptq-4", "gptq-4-order", "gptq-8", "awq", "integers-4",
                                         "integers-3-zeros", "integers-8-rows", "floats-8-rows", "mxfp4", "nvfp4",
                                         "nvfp4-factor"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(QuantizationConfig, WhatTheConfigurationSays) {
  const auto parse = [](const char *quantization) {
    return parseQuantizationConfig(std::string(R"({"torch_dtype": "float16", "quantization_config": )") + quantization +
                                   "}");
  };
  EXPECT_EQ(parseQuantizationConfig("{}").method, "");
  EXPECT_EQ(parseQuantizationConfig("not JSON").method, "");
  EXPECT_EQ(parse("7").method, "");
  const QuantizationConfig fp8 = parse(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})");
  EXPECT_EQ(fp8.method, "fp8");
  EXPECT_EQ(fp8.unsupported, "");
  EXPECT_EQ(fp8.block, (std::vector<int64_t>{128, 64}));
  EXPECT_EQ(fp8.type, plan::F16);
  EXPECT_TRUE(parse(R"({"quant_method": "fp8", "weight_block_size": [128, -1]})").block.empty());
  EXPECT_TRUE(parse(R"({"quant_method": "gptq"})").hasZerosLessOne);
  EXPECT_FALSE(parse(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})").hasZerosLessOne);
  EXPECT_EQ(parse(R"({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq"})").method, "gptq");
  EXPECT_EQ(parse(R"({"quant_method": "bitsandbytes"})").unsupported, ""); // others look at it
  EXPECT_NE(parse(R"({"quant_method": "hqq"})").unsupported, "");
  EXPECT_NE(parse(R"({"bits": 4})").unsupported, "");
  // A multi-modal model has it beside, or in, the language model's part.
  EXPECT_EQ(parseQuantizationConfig(
                R"({"text_config": {"dtype": "float32", "quantization_config": {"quant_method": "awq"}}})")
                .method,
            "awq");
}

TEST(QuantizedMatrices, PartsAreKnown) {
  const GoldenFolder folder("fp8-static");
  const std::string module = "model.layers.0.mlp.up_proj.";
  for (const char *part : {"weight", "weight_scale_inv", "activation_scale"})
    EXPECT_TRUE(folder.matrices.isPart(module + part)) << part;
  EXPECT_FALSE(folder.matrices.isPart("model.norm.weight"));
  EXPECT_FALSE(QuantizedMatrices().isPart(module + "activation_scale"));
}

} // namespace
} // namespace ztc
