#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/RunParts.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/BlockState.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ztc {
namespace {

/// What the parts of a matrix begin at multiples of: a GPU's widest access.
constexpr uint64_t kPartAlignment = 16;
/// Elements that are read at a time.
constexpr uint64_t kPiece = uint64_t(1) << 16;

uint64_t aligned(uint64_t bytes) {
  return roundUp(bytes, kPartAlignment);
}

float floatAt(const std::byte *bytes, uint64_t offset, uint64_t index = 0) {
  float value;
  std::memcpy(&value, bytes + offset + index * sizeof value, sizeof value);
  return value;
}
void putFloats(std::byte *bytes, uint64_t offset, std::span<const float> values) {
  std::memcpy(bytes + offset, values.data(), values.size_bytes());
}

/// Quantiles of the normal distribution, scaled to [-1, 1]: arXiv:2305.14314, appendix E.
constexpr std::array<float, kNf4Map> kNf4Values = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

constexpr uint8_t kZeroCode = 7;

constexpr std::array<float, kNf4Map> kE2m1Values = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// The power of two that a byte stands for: the exponent of an f32.
float powerOf(std::byte exponent) {
  return std::bit_cast<float>(uint32_t(exponent) << 23);
}

constexpr std::pair<plan::WeightFormat, const char *> kFormatNames[] = {
    {plan::NF4, "nf4"}, {plan::NF4_SINGLE, "nf4_single"}, {plan::MXFP4, "mxfp4"}, {plan::INT8, "int8"}};

/// The index of the value of an ascending map that is nearest to `value`; of two equally near the lower one.
uint8_t nearest(std::span<const float> map, float value) {
  size_t low = 0, high = map.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (value > (map[middle] + map[middle + 1]) / 2)
      low = middle + 1;
    else
      high = middle;
  }
  return uint8_t(low);
}

/// The same in the map of nf4, without a branch that a processor would guess wrong half of the time.
uint8_t nearestNf4(float value) {
  static const std::array<float, kNf4Map - 1> middles = [] {
    std::array<float, kNf4Map - 1> between{};
    for (size_t i = 0; i < between.size(); ++i)
      between[i] = (kNf4Values[i] + kNf4Values[i + 1]) / 2;
    return between;
  }();
  size_t low = 0;
  for (size_t half = kNf4Map / 2; half; half /= 2)
    low += size_t(value > middles[low + half - 1]) * half;
  return uint8_t(low);
}

/// That of a number of [-1, 1] as bitsandbytes finds it on a processor: of the nearest of 65536 points.
uint8_t nearestOfPoints(std::span<const float> map, float value) {
  constexpr float kLast = 65535.0f;
  const auto point = float(int(std::fma((1.0f + std::clamp(value, -1.0f, 1.0f)) * 0.5f, kLast, 0.5f)));
  return nearest(map, (point + point) / kLast - 1.0f);
}

/// What elements of a block are multiplied by; of a block of zeros it is not an infinity.
float inverse(float scale) {
  return 1.0f / std::max(scale, 1e-38f);
}

/// Calls `work` with pieces of [0, count) that begin at multiples of `grain`; each thread takes a run of them.
void forPieces(uint64_t count, uint64_t grain, uint32_t threads,
               const std::function<void(uint64_t begin, uint64_t end)> &work) {
  const uint64_t pieces = (count + grain - 1) / grain, workers = std::clamp<uint64_t>(threads, 1, pieces);
  const auto run = [&](uint64_t worker) {
    for (uint64_t piece = pieces * worker / workers; piece < pieces * (worker + 1) / workers; ++piece)
      work(piece * grain, std::min(count, (piece + 1) * grain));
  };
  runParts(workers, run);
}

float magnitude(std::span<const float> values) {
  float greatest = 0;
  for (float value : values)
    greatest = std::max(greatest, std::fabs(value));
  return greatest;
}

#if defined(__x86_64__)
/// The multiple of eight elements that it returns: map[code] * scale of the codes at `codes`.
__attribute__((target("avx2"))) uint64_t scaleCodesAvx2(const std::byte *codes, uint64_t count, const float *map,
                                                        float scale, float *to) {
  const __m256 low = _mm256_loadu_ps(map), high = _mm256_loadu_ps(map + 8), scales = _mm256_set1_ps(scale);
  const __m256i shifts = _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24); // the first element is in the high half
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    int32_t word;
    std::memcpy(&word, codes + i / 2, sizeof word);
    const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts); // permutations look at three bits
    const __m256 isHigh = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
    const __m256 value =
        _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index), isHigh);
    _mm256_storeu_ps(to + i, _mm256_mul_ps(value, scales));
  }
  return i;
}

bool hasAvx2() {
  static const bool has = hostSupports("x86-64-v3");
  return has;
}
#else
uint64_t scaleCodesAvx2(const std::byte *, uint64_t, const float *, float, float *) {
  return 0;
}
bool hasAvx2() {
  return false;
}
#endif

/// Elements of one scale; the first code is in the high half of a byte.
void scaleCodes(const std::byte *codes, uint64_t count, const float *map, float scale, float *to) {
  uint64_t i = hasAvx2() ? scaleCodesAvx2(codes, count, map, scale, to) : 0;
  for (; i < count; ++i)
    to[i] = map[i % 2 ? uint8_t(codes[i / 2]) & 15 : uint8_t(codes[i / 2]) >> 4] * scale;
}

void quantizeScales(const QuantizedLayout &layout, std::span<const float> scales, std::byte *to) {
  putFloats(to, layout.map, nf4Map());
  if (layout.format == plan::NF4_SINGLE)
    return putFloats(to, layout.scales, scales);
  double sum = 0;
  for (float scale : scales)
    sum += double(scale);
  const float mean = float(sum / double(scales.size()));
  putFloats(to, layout.mean, {&mean, 1});
  putFloats(to, layout.nestedMap, dynamicMap());
  std::array<float, kNestedBlock> centred;
  for (uint64_t begin = 0; begin < scales.size(); begin += kNestedBlock) {
    const uint64_t count = std::min<uint64_t>(kNestedBlock, scales.size() - begin);
    for (uint64_t i = 0; i < count; ++i)
      centred[i] = scales[begin + i] - mean;
    const float scale = magnitude({centred.data(), count});
    putFloats(to, layout.nestedScales + begin / kNestedBlock * sizeof scale, {&scale, 1});
    for (uint64_t i = 0; i < count; ++i)
      to[layout.scales + begin + i] = std::byte(nearestOfPoints(dynamicMap(), centred[i] * inverse(scale)));
  }
}

void quantizeNf4(const QuantizedLayout &layout, const ElementReader &read, uint32_t threads, std::byte *to) {
  std::vector<float> scales(layout.blocks());
  forPieces(layout.elements(), kPiece, threads, [&](uint64_t begin, uint64_t end) {
    std::vector<float> values(end - begin);
    read(begin, end - begin, values.data());
    for (uint64_t first = 0; first < values.size(); first += kNf4Block) {
      const std::span<const float> block(values.data() + first, std::min(kNf4Block, values.size() - first));
      const float scale = magnitude(block);
      const float factor = inverse(scale);
      scales[(begin + first) / kNf4Block] = scale;
      for (size_t i = 0; i < block.size(); i += 2) {
        const auto code = [&](size_t index) -> uint8_t {
          if (index >= block.size()) // half a byte that nobody reads
            return kZeroCode;
          return nearestNf4(block[index] * factor);
        };
        to[(begin + first + i) / 2] = std::byte(code(i) << 4 | code(i + 1));
      }
    }
  });
  quantizeScales(layout, scales, to);
}

/// The code of e2m1 that is nearest, of two the even one; beyond 6 that.
uint8_t nearestE2m1(float value) {
  const float x = std::fabs(value);
  const int code = (x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
  return uint8_t(code | (std::signbit(value) ? 8 : 0));
}

void quantizeMxfp4(const QuantizedLayout &layout, const ElementReader &read, uint32_t threads, std::byte *to) {
  putFloats(to, layout.map, e2m1Map());
  forPieces(layout.elements(), kPiece, threads, [&](uint64_t begin, uint64_t end) {
    std::vector<float> values(end - begin + 1); // of an odd count the last byte's other half is 0
    read(begin, end - begin, values.data());
    for (uint64_t first = 0; first < end - begin; first += kMxfp4Block) {
      const uint64_t count = std::min(kMxfp4Block, end - begin - first);
      const uint32_t exponent = std::bit_cast<uint32_t>(magnitude({values.data() + first, count})) >> 23;
      const auto scale = std::byte(std::clamp(int(exponent) - 2, 1, 252));
      to[layout.scales + (begin + first) / kMxfp4Block] = scale;
      const float factor = powerOf(std::byte(254 - int(scale)));
      for (uint64_t i = first; i < first + count; i += 2)
        to[(begin + i) / 2] = std::byte(nearestE2m1(values[i] * factor) << 4 | nearestE2m1(values[i + 1] * factor));
    }
  });
}

void quantizeInt8(const QuantizedLayout &layout, const ElementReader &read, uint32_t threads, std::byte *to) {
  const uint64_t rows = std::max<uint64_t>(1, kPiece / std::max<uint64_t>(layout.columns, 1));
  forPieces(layout.rows, rows, threads, [&](uint64_t begin, uint64_t end) {
    std::vector<float> values((end - begin) * layout.columns);
    for (uint64_t first = 0; first < values.size(); first += kPiece)
      read(begin * layout.columns + first, std::min(kPiece, values.size() - first), values.data() + first);
    for (uint64_t row = begin; row < end; ++row) {
      const std::span<const float> from(values.data() + (row - begin) * layout.columns, layout.columns);
      const float scale = magnitude(from);
      putFloats(to, layout.scales + row * sizeof scale, {&scale, 1});
      const float factor = 1.0f / scale * 127.0f; // as PyTorch divides a number by a tensor
      for (uint64_t column = 0; column < layout.columns; ++column)
        to[row * layout.columns + column] =
            std::byte(int8_t(scale > 0 ? std::nearbyintf(from[column] * factor) : 0.0f));
    }
  });
}

} // namespace

std::optional<QuantizedLayout> quantizedLayout(plan::WeightFormat format, uint64_t rows, uint64_t columns) {
  QuantizedLayout layout{.format = format, .rows = rows, .columns = columns};
  uint64_t elements = 0;
  if (__builtin_mul_overflow(rows, columns, &elements) || elements == 0 || elements > uint64_t(1) << 58)
    return std::nullopt;
  if (format == plan::INT8) {
    layout.scales = aligned(elements);
    layout.bytes = layout.scales + rows * sizeof(float);
    return layout;
  }
  if (!isNf4(format) && format != plan::MXFP4)
    return std::nullopt;
  layout.scales = aligned((elements + 1) / 2);
  if (format == plan::MXFP4) {
    layout.map = layout.scales + aligned(layout.blocks());
    layout.bytes = layout.map + kNf4Map * sizeof(float);
    return layout;
  }
  if (format == plan::NF4_SINGLE) {
    layout.map = layout.scales + aligned(layout.blocks() * sizeof(float));
    layout.bytes = layout.map + kNf4Map * sizeof(float);
    return layout;
  }
  layout.nestedScales = layout.scales + aligned(layout.blocks());
  layout.nestedMap = layout.nestedScales + aligned(layout.nestedBlocks() * sizeof(float));
  layout.map = layout.nestedMap + kNestedMap * sizeof(float);
  layout.mean = layout.map + kNf4Map * sizeof(float);
  layout.bytes = layout.mean + sizeof(float);
  return layout;
}

std::optional<QuantizedLayout> quantizedLayout(const plan::Parameter &parameter) {
  const auto &shape = parameter.quantized_shape();
  if (shape.size() < 2 || shape.size() > 3 || std::ranges::any_of(shape, [](int64_t size) { return size <= 0; }))
    return std::nullopt;
  const int last = shape.size() - 1, rows = parameter.quantized_transposed() ? last : last - 1;
  uint64_t allRows = 0;
  if (__builtin_mul_overflow(quantizedMatrices(parameter), uint64_t(shape[rows]), &allRows))
    return std::nullopt;
  return quantizedLayout(parameter.format(), allRows, uint64_t(shape[2 * last - 1 - rows]));
}

uint64_t quantizedMatrices(const plan::Parameter &parameter) {
  return parameter.quantized_shape_size() == 3 ? uint64_t(parameter.quantized_shape(0)) : 1;
}

const char *weightFormatName(plan::WeightFormat format) {
  for (const auto &[known, name] : kFormatNames)
    if (known == format)
      return name;
  return "plain";
}

plan::WeightFormat weightFormat(std::string_view name) {
  for (const auto &[format, known] : kFormatNames)
    if (known == name)
      return format;
  return plan::PLAIN;
}

std::string describeQuantized(const plan::Plan &plan) {
  std::string text;
  for (const auto &[format, name] : kFormatNames) {
    uint64_t weights = 0, bytes = 0, elements = 0;
    for (const plan::Parameter &parameter : plan.parameters()) {
      if (parameter.format() != format || parameter.shape_size() != 1)
        continue;
      ++weights;
      bytes += uint64_t(parameter.shape(0));
      uint64_t count = 1;
      for (const int64_t size : parameter.quantized_shape())
        count *= uint64_t(size);
      elements += count;
    }
    if (weights)
      text += fmt::format("{}{} weights in {}: {} for {} elements", text.empty() ? "" : "; ", weights, name,
                          formatSize(bytes), elements);
  }
  return text;
}

std::span<const float> nf4Map() {
  return kNf4Values;
}

std::span<const float> e2m1Map() {
  return kE2m1Values;
}

std::span<const float> dynamicMap() {
  return stateMap(/*isSigned=*/true).values;
}

void dequantize(const std::byte *bytes, const QuantizedLayout &layout, uint64_t begin, uint64_t count, float *out) {
  if (layout.format == plan::INT8) {
    for (uint64_t i = 0; i < count; ++i)
      out[i] =
          float(int8_t(bytes[begin + i])) * floatAt(bytes, layout.scales, (begin + i) / layout.columns) * kInt8Unit;
    return;
  }
  std::array<float, kNf4Map> map;
  std::memcpy(map.data(), bytes + layout.map, sizeof map);
  const bool isSingle = layout.format == plan::NF4_SINGLE, isMxfp4 = layout.format == plan::MXFP4;
  const float mean = isSingle || isMxfp4 ? 0.0f : floatAt(bytes, layout.mean);
  const uint64_t blockLength = layout.block();
  const auto scaleOf = [&](uint64_t block) {
    if (isMxfp4)
      return powerOf(bytes[layout.scales + block]);
    if (isSingle)
      return floatAt(bytes, layout.scales, block);
    return floatAt(bytes, layout.nestedMap, uint8_t(bytes[layout.scales + block])) *
               floatAt(bytes, layout.nestedScales, block / kNestedBlock) +
           mean;
  };
  const uint64_t rowLength = layout.hasScalesByRow() ? layout.columns : layout.elements();
  for (uint64_t first = begin; first < begin + count;) {
    const uint64_t column = first % rowLength, block = column / blockLength;
    const uint64_t length = std::min({begin + count - first, rowLength - column, (block + 1) * blockLength - column});
    scaleCodes(bytes + first / 2, length, map.data(), scaleOf(first / rowLength * (rowLength / blockLength) + block),
               out + (first - begin));
    first += length;
  }
}

ElementReader transposedReader(uint64_t matrices, uint64_t rows, uint64_t columns, const ElementReader &read) {
  const auto all = std::make_shared<std::vector<float>>(matrices * rows * columns);
  for (uint64_t begin = 0; begin < all->size(); begin += kPiece)
    read(begin, std::min(kPiece, all->size() - begin), all->data() + begin);
  return [=](uint64_t begin, uint64_t count, float *out) {
    const uint64_t size = rows * columns;
    for (uint64_t i = begin; i < begin + count; ++i)
      *out++ = (*all)[i / size * size + i % rows * columns + i % size / rows];
  };
}

ElementReader quantizedReader(const plan::Parameter &parameter, const ElementReader &read) {
  if (!parameter.quantized_transposed())
    return read;
  const auto &shape = parameter.quantized_shape();
  const int last = shape.size() - 1;
  return transposedReader(quantizedMatrices(parameter), uint64_t(shape[last - 1]), uint64_t(shape[last]), read);
}

std::vector<std::byte> quantize(const QuantizedLayout &layout, const ElementReader &read, uint32_t threads) {
  std::vector<std::byte> bytes(layout.bytes);
  if (layout.format == plan::INT8)
    quantizeInt8(layout, read, threads, bytes.data());
  else if (layout.format == plan::MXFP4)
    quantizeMxfp4(layout, read, threads, bytes.data());
  else
    quantizeNf4(layout, read, threads, bytes.data());
  return bytes;
}

} // namespace ztc
