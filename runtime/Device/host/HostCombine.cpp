// Of each token the sum of its choices' rows.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <atomic>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostCombine : public HostStep {
public:
  explicit HostCombine(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Combine &combine = from.step.combine();
    narrowType_ = narrowDataType(combine.type());
    if (!narrowType_ && combine.type() != plan::F32)
      return dataLoss(fmt::format("combine of type {}", dataTypeName(combine.type())));
    const uint64_t bytes = dataTypeBytes(combine.type());
    ZTC_RETURN_IF_ERROR(resolve(from, {3}));
    ZTC_RETURN_IF_ERROR(requireElements(from, X, {combine.rows(), combine.choices(), combine.width()}, bytes));
    ZTC_RETURN_IF_ERROR(requireElements(from, Places, {combine.rows(), combine.choices()}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Result, {combine.rows(), combine.width()}, bytes));
    tokens_ = combine.rows();
    choices_ = combine.choices();
    width_ = combine.width();
    return Status::ok();
  }

  Status execute(uint32_t) override {
    const int32_t *places = pointer<int32_t>(Places);
    const uint64_t rows = tokens_ * choices_;
    std::atomic<uint64_t> wrong{UINT64_MAX};
    resources_.pool.parallelFor(tokens_, 8, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t token = begin; token < end; ++token) {
        const int32_t *of = places + token * choices_;
        const int32_t *bad = std::find_if(of, of + choices_, [&](int32_t at) { return uint32_t(at) >= rows; });
        if (bad != of + choices_)
          wrong.store(uint64_t(bad - places), std::memory_order_relaxed);
        else if (narrowType_)
          addNarrow(of, token);
        else
          add(of, token);
      }
    });
    if (const uint64_t at = wrong.load(std::memory_order_relaxed); at != UINT64_MAX)
      return invalidArgument(
          fmt::format("place {} of choice {} is outside the {} rows of choices", places[at], at, rows));
    return Status::ok();
  }

private:
  enum Operands { X, Places, Result };

  void add(const int32_t *places, uint64_t token) const {
    const float *x = pointer<float>(X);
    float *sums = pointer<float>(Result) + token * width_;
    std::copy_n(x + uint64_t(places[0]) * width_, width_, sums);
    for (uint64_t choice = 1; choice < choices_; ++choice) {
      const float *row = x + uint64_t(places[choice]) * width_;
      for (uint64_t i = 0; i < width_; ++i)
        sums[i] += row[i];
    }
  }

  void addNarrow(const int32_t *places, uint64_t token) const {
    const uint16_t *x = pointer<uint16_t>(X);
    uint16_t *to = pointer<uint16_t>(Result) + token * width_;
    float sums[1024]; // a part of a row, in the first cache
    for (uint64_t column = 0; column < width_; column += std::size(sums)) {
      const uint64_t count = std::min<uint64_t>(std::size(sums), width_ - column);
      widen(sums, x + uint64_t(places[0]) * width_ + column, count, *narrowType_);
      for (uint64_t choice = 1; choice < choices_; ++choice)
        addWidened(sums, x + uint64_t(places[choice]) * width_ + column, count, *narrowType_);
      narrow(to + column, sums, count, *narrowType_);
    }
  }

  std::optional<NarrowType> narrowType_; ///< nothing: f32
  uint64_t tokens_ = 0, choices_ = 0, width_ = 0;
};

} // namespace

PreparedStep prepareHostCombine(const HostPrepare &from) {
  auto step = std::make_unique<HostCombine>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
