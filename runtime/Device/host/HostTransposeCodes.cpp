// The transposed matrix of fp8 codes.
#include "runtime/Core/Fp8.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostTransposeCodes : public HostStep {
public:
  explicit HostTransposeCodes(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::TransposeCodes &call = from.step.transpose_codes();
    rows_ = call.rows();
    columns_ = call.columns();
    ZTC_RETURN_IF_ERROR(resolve(from, {call.maxima() == plan::DATA_TYPE_UNSPECIFIED ? 2 : 4}));
    if (!rows_ || !columns_ || rows_ % kFp8Tile || columns_ % kFp8Tile)
      return dataLoss(fmt::format("no transposed codes of {} x {} elements", rows_, columns_));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {rows_, columns_}, 1));
    ZTC_RETURN_IF_ERROR(requireElements(from, 1, {rows_, columns_}, 1));
    if (call.maxima() == plan::DATA_TYPE_UNSPECIFIED)
      return Status::ok();
    narrowType_ = narrowDataType(call.maxima());
    if (!narrowType_ && call.maxima() != plan::F32)
      return dataLoss(fmt::format("no absolute maximum of numbers of type {}", int(call.maxima())));
    maxima_ = operandBytes(2) / dataTypeBytes(call.maxima());
    accumulate_ = call.accumulate();
    return requireElements(from, 3, {1}, sizeof(float));
  }

  Status execute(uint32_t microstep) override {
    if (maxima_)
      noteLargest(addsNow(accumulate_, microstep));
    const auto *from = pointer<const uint8_t>(0);
    auto *to = pointer<uint8_t>(1);
    // Squares of kBlock: lines of both matrices stay in the first-level cache.
    resources_.pool.parallelFor((columns_ + kBlock - 1) / kBlock, 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      const uint64_t last = std::min(end * kBlock, columns_);
      for (uint64_t row = 0; row < rows_; row += kBlock)
        for (uint64_t column = begin * kBlock; column < last; ++column)
          for (uint64_t r = row; r < std::min(row + kBlock, rows_); ++r)
            to[column * rows_ + r] = from[r * columns_ + column];
    });
    return Status::ok();
  }

private:
  static constexpr uint64_t kBlock = 64;

  /// The largest of the absolute maxima of the matrix's parts, one for some of its rows each: they are few.
  void noteLargest(bool adds) const {
    auto *to = pointer<float>(3);
    float largest = adds ? *to : 0;
    std::array<float, kBlock> numbers;
    for (uint64_t first = 0; first < maxima_; first += kBlock) {
      const uint64_t count = std::min(kBlock, maxima_ - first);
      if (narrowType_)
        widen(numbers.data(), pointer<const uint16_t>(2) + first, count, *narrowType_);
      else
        std::memcpy(numbers.data(), pointer<const float>(2) + first, count * sizeof(float));
      for (uint64_t i = 0; i < count; ++i)
        largest = largerFp8Amax(numbers[i], largest);
    }
    *to = largest;
  }

  uint64_t rows_ = 0, columns_ = 0;
  uint64_t maxima_ = 0;                  ///< absolute maxima of parts; 0: none are wanted
  std::optional<NarrowType> narrowType_; ///< theirs; nothing: f32
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareHostTransposeCodes(const HostPrepare &from) {
  auto step = std::make_unique<HostTransposeCodes>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
