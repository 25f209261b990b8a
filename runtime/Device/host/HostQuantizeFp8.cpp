// The fp8 codes of a matrix, with one scale for all of it.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostQuantizeFp8 : public HostStep {
public:
  explicit HostQuantizeFp8(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::QuantizeFp8 &call = from.step.quantize_fp8();
    rows_ = call.rows();
    columns_ = call.columns();
    byRows_ = call.by_rows();
    byColumns_ = call.by_columns();
    const int results = int(byRows_) + int(byColumns_);
    ZTC_RETURN_IF_ERROR(resolve(from, {3 + results, 4 + results}));
    const std::optional<Fp8Format> format = fp8DataType(call.to());
    narrowType_ = narrowDataType(call.from());
    if (!format || (!narrowType_ && call.from() != plan::F32) || !rows_ || !columns_ || rows_ % kFp8Tile ||
        columns_ % kFp8Tile || results == 0)
      return dataLoss(fmt::format("no fp8 codes of {} x {} elements of type {} as type {}", rows_, columns_,
                                  int(call.from()), int(call.to())));
    format_ = *format;
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {rows_, columns_}, dataTypeBytes(call.from())));
    ZTC_RETURN_IF_ERROR(requireElements(from, 1, {2}, sizeof(float)));
    isKnown_ = call.known_scale();
    accumulate_ = call.accumulate();
    ZTC_RETURN_IF_ERROR(
        requireElements(from, 2, {isKnown_ ? fp8Blocks(rows_, columns_) : kFp8Partials}, sizeof(float)));
    for (size_t operand = 3; operand < 3 + size_t(results); ++operand)
      ZTC_RETURN_IF_ERROR(requireElements(from, operand, {rows_, columns_}, 1));
    if (isKnown_ && operandCount() <= 3 + size_t(results))
      return dataLoss("fp8 codes of a known scale have no place for the absolute maximum");
    if (isKnown_)
      return requireElements(from, 3 + size_t(results), {1}, sizeof(float));
    if (operandCount() > 3 + size_t(results))
      amax_ = operandBytes(3 + results) / dataTypeBytes(call.from());
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    Fp8Scale scale;
    if (isKnown_) {
      std::memcpy(&scale, pointer<const std::byte>(1), sizeof scale);
      auto *largest = pointer<float>(operandCount() - 1);
      *largest = largerFp8Amax(largestMagnitude(), addsNow(accumulate_, microstep) ? *largest : 0);
    } else {
      scale = fp8Scale(largestMagnitude(), format_);
      std::memcpy(pointer(1), &scale, sizeof scale);
    }
    resources_.pool.parallelFor(rows_ / kFp8Tile, 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t band = begin; band < end; ++band)
        for (uint64_t column = 0; column < columns_; column += kStretch)
          quantizeTile(band * kFp8Tile, column, std::min(kStretch, columns_ - column), scale.scale);
    });
    return Status::ok();
  }

private:
  static constexpr uint64_t kStretch = 512; ///< elements of a row at a time, 2 KiB of f32

  /// Elements of an operand of x's type from `first` on, as f32.
  void read(float *to, size_t operand, uint64_t first, uint64_t count) const {
    if (narrowType_)
      widen(to, pointer<uint16_t>(operand) + first, count, *narrowType_);
    else
      std::memcpy(to, pointer<float>(operand) + first, count * sizeof(float));
  }

  /// Of all x, or of its parts' absolute maxima; NaN where there is one. A maximum is the same in any order.
  float largestMagnitude() const {
    auto *partials = pointer<float>(2);
    const uint64_t elements = amax_ ? amax_ : rows_ * columns_, pieces = (elements + kStretch - 1) / kStretch;
    const size_t operand = amax_ ? operandCount() - 1 : 0;
    const uint64_t count = std::min(pieces, isKnown_ ? fp8Blocks(rows_, columns_) : kFp8Partials);
    resources_.pool.parallelFor(count, 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t part = begin; part < end; ++part) {
        std::array<float, kStretch> numbers;
        // Of numbers that are not negative the bits order as the numbers do, NaN after all others.
        uint32_t largest = 0;
        for (uint64_t piece = part; piece < pieces; piece += count) {
          const uint64_t first = piece * kStretch, size = std::min(kStretch, elements - first);
          read(numbers.data(), operand, first, size);
          for (uint64_t i = 0; i < size; ++i)
            largest = std::max(largest, std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffu);
        }
        partials[part] = std::bit_cast<float>(largest);
      }
    });
    float largest = 0;
    for (uint64_t part = 0; part < count; ++part)
      largest = largerFp8Amax(partials[part], largest);
    return largest;
  }

  /// kFp8Tile rows from `row` on, `count` columns from `column` on.
  void quantizeTile(uint64_t row, uint64_t column, uint64_t count, float scale) const {
    std::array<std::array<uint8_t, kStretch>, kFp8Tile> codes;
    std::array<float, kStretch> numbers;
    for (uint64_t r = 0; r < kFp8Tile; ++r) {
      read(numbers.data(), 0, (row + r) * columns_ + column, count);
      for (uint64_t c = 0; c < count; ++c)
        codes[r][c] = toFp8(numbers[c] * scale, format_);
      if (byRows_)
        std::memcpy(pointer<uint8_t>(3) + (row + r) * columns_ + column, codes[r].data(), count);
    }
    if (!byColumns_)
      return;
    auto *to = pointer<uint8_t>(byRows_ ? 4 : 3) + column * rows_ + row;
    for (uint64_t c = 0; c < count; ++c)
      for (uint64_t r = 0; r < kFp8Tile; ++r)
        to[c * rows_ + r] = codes[r][c];
  }

  uint64_t rows_ = 0, columns_ = 0, amax_ = 0;
  bool byRows_ = false, byColumns_ = false, isKnown_ = false;
  plan::Accumulate accumulate_ = plan::OVERWRITE; ///< of the absolute maximum
  Fp8Format format_ = Fp8Format::E4m3;
  std::optional<NarrowType> narrowType_; ///< nothing: f32
};

} // namespace

PreparedStep prepareHostQuantizeFp8(const HostPrepare &from) {
  auto step = std::make_unique<HostQuantizeFp8>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
