#include "runtime/Format/BlockState.h"
#include "runtime/Format/Shards.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace ztc {

bool isBlockState(plan::DataType type) {
  return type == plan::BLOCK8 || type == plan::UBLOCK8;
}

uint64_t ownShardBytes(const plan::SizeForm &size, uint64_t world) {
  const uint64_t elements = shardElements(size.elements(), world, size.quantum());
  return (size.block_elements() ? elements / size.block_elements() : elements) * size.element_bytes();
}

/// create_dynamic_map(signed) of bitsandbytes/functional.py, to the bit: borders as torch.linspace(0.1, 1) gives them,
/// from the nearer end with one rounding, then steps of f32.
static DynamicMap makeStateMap(bool isSigned) {
  constexpr int kDecades = 7;
  const float first = 0.1f, last = 1.0f;
  std::vector<float> values{0.0f, 1.0f};
  for (int decade = 0; decade < kDecades; ++decade) {
    const int steps = 1 << (isSigned ? decade : decade + 1);
    const float step = (last - first) / static_cast<float>(steps);
    const auto border = [&](int k) {
      return k < (steps + 1) / 2 ? static_cast<float>(double(first) + double(step) * k)
                                 : static_cast<float>(double(last) - double(step) * (steps - k));
    };
    const float scale = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    for (int k = 0; k < steps; ++k) {
      const float value = (border(k) + border(k + 1)) / 2.0f * scale;
      values.push_back(value);
      if (isSigned)
        values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  DynamicMap map;
  std::copy(values.begin(), values.end(), map.values.begin());
  for (size_t code = 0; code < map.bounds.size(); ++code)
    map.bounds[code] = (map.values[code] + map.values[code + 1]) / 2.0f;
  return map;
}

const DynamicMap &stateMap(bool isSigned) {
  static const DynamicMap withSign = makeStateMap(true), without = makeStateMap(false);
  return isSigned ? withSign : without;
}

uint8_t DynamicMap::code(float normalised) const {
  unsigned code = 0;
  for (unsigned step = 128; step > 0; step /= 2)
    if (bounds[code + step - 1] < normalised)
      code += step;
  return static_cast<uint8_t>(code);
}

float largestMagnitude(std::span<const float> values) {
  float largest = 0.0f;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    if (std::isnan(magnitude))
      return magnitude;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

float inverseMagnitude(float magnitude) {
  return 1.0f / (magnitude > kSmallestMagnitude ? magnitude : kSmallestMagnitude);
}

void encodeStateBlock(std::span<const float> values, bool isSigned, std::byte *record) {
  const DynamicMap &map = stateMap(isSigned);
  const float magnitude = largestMagnitude(values), inverse = inverseMagnitude(magnitude);
  for (size_t i = 0; i < kStateBlock; ++i)
    record[i] = static_cast<std::byte>(map.code(i < values.size() ? values[i] * inverse : 0.0f));
  std::memcpy(record + kStateBlock, &magnitude, sizeof magnitude);
}

void decodeStateBlock(const std::byte *record, bool isSigned, std::span<float> values) {
  const DynamicMap &map = stateMap(isSigned);
  float magnitude = 0.0f;
  std::memcpy(&magnitude, record + kStateBlock, sizeof magnitude);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = map.values[static_cast<uint8_t>(record[i])] * magnitude;
}

void roundThroughBlocks(std::span<float> values, bool isSigned) {
  std::array<std::byte, kStateBlockBytes> record;
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const std::span<float> block = values.subspan(begin, std::min<size_t>(kStateBlock, values.size() - begin));
    encodeStateBlock(block, isSigned, record.data());
    decodeStateBlock(record.data(), isSigned, block);
  }
}

} // namespace ztc
