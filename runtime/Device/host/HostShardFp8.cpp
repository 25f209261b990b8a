// Weights that ranks gather as fp8 codes: the absolute maxima of what this rank has of them, and its codes.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostShardFp8 : public HostStep {
public:
  explicit HostShardFp8(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::ShardFp8 &call = from.step.shard_fp8();
    ZTC_RETURN_IF_ERROR(resolve(from, {}));
    const std::optional<NarrowType> narrow = narrowDataType(call.from());
    findsMaxima_ = call.to() == plan::F32;
    if (!narrow && call.from() != plan::F32)
      return dataLoss(fmt::format("no fp8 codes of numbers of type {}", int(call.from())));
    narrowType_ = narrow;
    first_ = call.first();
    ZTC_ASSIGN_OR_RETURN(parts_, shardParts(from.step, call.ranges(), kShards, from.context));
    const size_t needed = findsMaxima_ ? 3 : 4 + parts_.size();
    if (operandCount() < needed)
      return dataLoss(fmt::format("the step has {} operands, {} expected", operandCount(), needed));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {first_ + parts_.size()}, sizeof(float)));
    for (const ShardPart &part : parts_) {
      ZTC_RETURN_IF_ERROR(requireElements(from, part.operand, {part.begin + part.count}, dataTypeBytes(call.from())));
      if (!findsMaxima_)
        ZTC_RETURN_IF_ERROR(requireElements(from, kCodes, {part.begin + part.count}, 1));
    }
    for (size_t scale = kCodes + 1; !findsMaxima_ && scale < operandCount(); ++scale)
      ZTC_RETURN_IF_ERROR(requireElements(from, scale, {2}, sizeof(float)));
    return Status::ok();
  }

  Status execute(uint32_t) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      float &largest = pointer<float>(0)[first_ + i];
      if (findsMaxima_) {
        largest = largestMagnitude(parts_[i]);
        continue;
      }
      const Fp8Scale scale = fp8Scale(largest, Fp8Format::E4m3);
      std::memcpy(pointer(kCodes + 1 + i), &scale, sizeof scale);
      quantize(parts_[i], scale.scale);
    }
    return Status::ok();
  }

private:
  static constexpr uint64_t kStretch = 4096;       ///< elements that a worker takes at a time
  static constexpr size_t kShards = 2, kCodes = 3; ///< operands: maxima, workspace, shard, codes, scales

  using Numbers = std::array<float, kStretch>;

  /// `body` gets pieces of a part as f32, with the place of each in the shard.
  template <typename Body> void forPieces(const ShardPart &part, Body body) const {
    resources_.pool.parallelFor((part.count + kStretch - 1) / kStretch, 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      Numbers numbers;
      for (uint64_t piece = begin; piece < end; ++piece) {
        const uint64_t at = part.begin + piece * kStretch, count = std::min(kStretch, part.count - piece * kStretch);
        if (narrowType_)
          widen(numbers.data(), pointer<uint16_t>(part.operand) + at, count, *narrowType_);
        else
          std::memcpy(numbers.data(), pointer<float>(part.operand) + at, count * sizeof(float));
        body(numbers, at, count);
      }
    });
  }

  /// Of numbers that are not negative the bits order as the numbers do, NaN after all others.
  float largestMagnitude(const ShardPart &part) const {
    std::atomic<uint32_t> largest{0};
    forPieces(part, [&](const Numbers &numbers, uint64_t, uint64_t count) {
      uint32_t own = 0;
      for (uint64_t i = 0; i < count; ++i)
        own = std::max(own, std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffu);
      for (uint32_t seen = largest.load(std::memory_order_relaxed);
           seen < own && !largest.compare_exchange_weak(seen, own, std::memory_order_relaxed);) {
      }
    });
    return std::bit_cast<float>(largest.load(std::memory_order_relaxed));
  }

  void quantize(const ShardPart &part, float scale) const {
    forPieces(part, [&](const Numbers &numbers, uint64_t at, uint64_t count) {
      for (uint64_t i = 0; i < count; ++i)
        pointer<uint8_t>(kCodes)[at + i] = toFp8(numbers[i] * scale, Fp8Format::E4m3);
    });
  }

  bool findsMaxima_ = false;
  uint64_t first_ = 0;
  std::vector<ShardPart> parts_;
  std::optional<NarrowType> narrowType_; ///< nothing: f32
};

} // namespace

PreparedStep prepareHostShardFp8(const HostPrepare &from) {
  auto step = std::make_unique<HostShardFp8>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
