#include "compiler/Reference/TensorBytes.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Tensors/Elements.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/BlockState.h"
#include <cmath>
#include <cstring>
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

/// The record of a block whose numbers these are. The largest of them has the code of 1, or, where it is negative, that
/// of the map's first value.
static void encodeExactly(std::span<const float> values, bool isSigned, std::byte *record) {
  const DynamicMap &map = stateMap(isSigned);
  const float largest = largestMagnitude(values), first = std::fabs(map.values.front());
  std::vector<float> magnitudes{largest};
  if (isSigned)
    for (float near :
         {std::nextafter(largest / first, 0.0f), largest / first, std::nextafter(largest / first, INFINITY)})
      magnitudes.push_back(near);
  for (float magnitude : magnitudes) {
    bool fits = true;
    for (size_t i = 0; i < kStateBlock && fits; ++i) {
      const float value = i < values.size() ? values[i] : 0.0f;
      const uint8_t code = map.code(value * inverseMagnitude(magnitude));
      record[i] = static_cast<std::byte>(code);
      fits = map.values[code] * magnitude == value;
    }
    std::memcpy(record + kStateBlock, &magnitude, sizeof magnitude);
    if (fits)
      return;
  }
  encodeStateBlock(values, isSigned, record);
}

static std::vector<char> blockBytes(const Tensor &tensor) {
  const bool isSigned = cast<graph::Block8Type>(tensor.elementType).getIsSigned();
  const std::vector<float> values(tensor.reals.begin(), tensor.reals.end());
  std::vector<char> bytes;
  std::array<std::byte, kStateBlockBytes> record;
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const size_t count = std::min<size_t>(kStateBlock, values.size() - begin);
    encodeExactly(std::span(values).subspan(begin, count), isSigned, record.data());
    bytes.insert(bytes.end(), reinterpret_cast<const char *>(record.data()),
                 reinterpret_cast<const char *>(record.data() + record.size()));
  }
  return bytes;
}

/// The fp8 codes of numbers that have some.
static std::vector<uint8_t> codes(const Tensor &tensor) {
  const Fp8Format format = isa<Float8E4M3FNType>(tensor.elementType) ? Fp8Format::E4m3 : Fp8Format::E5m2;
  std::vector<uint8_t> codes;
  for (double value : tensor.reals)
    codes.push_back(toFp8(static_cast<float>(value), format));
  return codes;
}

std::vector<char> toBytes(const Tensor &tensor) {
  std::vector<char> bytes;
  if (isa<Float8E4M3FNType, Float8E5M2Type>(tensor.elementType)) {
    append<uint8_t>(bytes, codes(tensor));
    return bytes;
  }
  if (isa<graph::Block8Type>(tensor.elementType))
    return blockBytes(tensor);
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
  if (auto block = dyn_cast<graph::Block8Type>(type.getElementType())) {
    Tensor tensor(type);
    std::vector<float> values(size_t(tensor.count()));
    for (size_t begin = 0; begin < values.size(); begin += kStateBlock)
      decodeStateBlock(reinterpret_cast<const std::byte *>(bytes.data()) + begin / kStateBlock * kStateBlockBytes,
                       block.getIsSigned(),
                       std::span(values).subspan(begin, std::min<size_t>(kStateBlock, values.size() - begin)));
    llvm::copy(values, tensor.reals.begin());
    return tensor;
  }
  Tensor tensor;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  tensor.elementType = type.getElementType();
  const unsigned bytesEach = (tensor.elementType.getIntOrFloatBitWidth() + 7) / 8;
  const ArrayRef<char> elements(bytes.data(), size_t(tensor.count()) * bytesEach);
  if (auto floatType = dyn_cast<FloatType>(tensor.elementType))
    readFloats(elements, floatType.getFloatSemantics(), tensor.reals);
  else
    readIntegers(elements, bytesEach, true, tensor.integers);
  return tensor;
}

Tensor randomOperand(RankedTensorType type, unsigned seed) {
  std::mt19937 generator(seed);
  Tensor tensor(type);
  // Each by one draw: the distributions of the standard library take two, and their sum in long double.
  for (double &x : tensor.reals)
    x = roundTo(std::ldexp(double(generator()), -30) - 2, type.getElementType());
  const uint32_t largest = type.getElementType().isInteger(1) ? 1 : 3;
  for (int64_t &x : tensor.integers)
    x = int64_t(generator() >> 30) & largest;
  if (auto block = dyn_cast<graph::Block8Type>(type.getElementType())) {
    if (!block.getIsSigned())
      for (double &x : tensor.reals)
        x = std::abs(x);
    roundToBlocks(tensor);
  }
  return tensor;
}

} // namespace ztc
