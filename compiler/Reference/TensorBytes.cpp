#include "compiler/Reference/TensorBytes.h"
#include "runtime/Core/FloatTypes.h"
#include <random>

using namespace mlir;

namespace ztc {

template <typename T, typename From> static void append(std::vector<char> &bytes, const std::vector<From> &values) {
  for (From value : values) {
    T stored = static_cast<T>(value);
    const char *at = reinterpret_cast<const char *>(&stored);
    bytes.insert(bytes.end(), at, at + sizeof(T));
  }
}

/// Elements of a narrow float as they are stored.
static std::vector<uint16_t> narrowBits(const Tensor &tensor) {
  bool brain = tensor.elementType.isBF16();
  std::vector<uint16_t> bits;
  for (double value : tensor.reals)
    bits.push_back(brain ? toBf16(static_cast<float>(value)) : toF16(static_cast<float>(value)));
  return bits;
}
static bool isNarrow(Type type) {
  return type.isBF16() || type.isF16();
}

std::vector<char> toBytes(const Tensor &tensor) {
  std::vector<char> bytes;
  if (isNarrow(tensor.elementType))
    append<uint16_t>(bytes, narrowBits(tensor));
  else if (tensor.elementType.isInteger(16))
    append<int16_t>(bytes, tensor.integers);
  else if (tensor.elementType.isF32())
    append<float>(bytes, tensor.reals);
  else if (tensor.elementType.isInteger(64))
    append<int64_t>(bytes, tensor.integers);
  else if (tensor.elementType.isInteger(32))
    append<int32_t>(bytes, tensor.integers);
  else
    append<int8_t>(bytes, tensor.integers);
  return bytes;
}

Tensor fromBytes(const std::vector<char> &bytes, RankedTensorType type) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto *halves = reinterpret_cast<const uint16_t *>(bytes.data());
    if (isNarrow(tensor.elementType))
      tensor.reals[i] = tensor.elementType.isBF16() ? fromBf16(halves[i]) : fromF16(halves[i]);
    else if (tensor.elementType.isInteger(16))
      tensor.integers[i] = static_cast<int16_t>(halves[i]);
    else if (tensor.elementType.isF32())
      tensor.reals[i] = reinterpret_cast<const float *>(bytes.data())[i];
    else if (tensor.elementType.isInteger(64))
      tensor.integers[i] = reinterpret_cast<const int64_t *>(bytes.data())[i];
    else if (tensor.elementType.isInteger(32))
      tensor.integers[i] = reinterpret_cast<const int32_t *>(bytes.data())[i];
    else
      tensor.integers[i] = bytes[i];
  }
  return tensor;
}

Tensor randomOperand(RankedTensorType type, unsigned seed) {
  std::mt19937 generator(seed);
  Tensor tensor(type);
  for (double &x : tensor.reals)
    x = roundTo(std::uniform_real_distribution<double>(-2.0, 2.0)(generator), type.getElementType());
  for (int64_t &x : tensor.integers)
    x = std::uniform_int_distribution<int64_t>(0, type.getElementType().isInteger(1) ? 1 : 3)(generator);
  return tensor;
}

} // namespace ztc
