// Tensors for the tests that hold a graph against a checkpoint.
#pragma once
#include "OnnxHarness.h"
#include "runtime/Format/Safetensors.h"
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

namespace ztc::test {

/// Values of a matrix or vector without a pattern; `seed` tells models apart.
inline std::vector<float> values(int64_t count, unsigned seed) {
  std::vector<float> result;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    result.push_back(float(int32_t(state >> 33)) / float(1 << 30) - 1.0f);
  }
  return result;
}
inline std::vector<float> transposed(const std::vector<float> &x, int64_t rows, int64_t columns) {
  std::vector<float> result(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      result[c * rows + r] = x[r * columns + c];
  return result;
}
inline std::vector<float> mapped(std::vector<float> x, const std::function<float(float)> &f) {
  for (float &value : x)
    value = f(value);
  return x;
}

/// A tensor of a checkpoint.
struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// A safetensors file of one type.
inline std::string safetensors(const std::vector<Stored> &tensors, plan::DataType type = plan::F32) {
  std::vector<SafetensorsSpec> specs;
  for (const Stored &tensor : tensors)
    specs.push_back({tensor.name, type, tensor.shape});
  SafetensorsLayout layout = layoutSafetensors(specs);
  std::string bytes = layout.header;
  bytes.resize(layout.fileBytes);
  for (size_t i = 0; i < tensors.size(); ++i)
    for (size_t k = 0; k < tensors[i].values.size(); ++k) {
      uint32_t bits;
      std::memcpy(&bits, &tensors[i].values[k], 4);
      if (type == plan::F32) {
        std::memcpy(bytes.data() + layout.offsets[i] + 4 * k, &bits, 4);
      } else { // bf16, to nearest
        uint16_t half = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
        std::memcpy(bytes.data() + layout.offsets[i] + 2 * k, &half, 2);
      }
    }
  return bytes;
}

/// The logits of the graph's own numbers and of the checkpoint's, through what was found, are one.
inline void expectSameLogits(const std::string &onnx, Imported &imported) {
  ASSERT_TRUE(imported.module) << imported.errors;
  ImportOptions frozen; // what an exporter computed is not a parameter without a checkpoint
  frozen.freeze = ".";
  Imported own = import(onnx, frozen);
  const std::vector<int64_t> tokens{1, 5, 0, 11};
  auto wanted = forwardLogits(own, tokens), found = forwardLogits(imported, tokens);
  ASSERT_TRUE(wanted && found);
  for (int64_t i = 0; i < wanted->count(); ++i)
    EXPECT_NEAR(found->reals[i], wanted->reals[i], 2e-6);
}

inline void expectError(const Imported &imported, const std::string &text) {
  EXPECT_FALSE(imported.module);
  EXPECT_NE(imported.errors.find(text), std::string::npos) << imported.errors;
}

} // namespace ztc::test
