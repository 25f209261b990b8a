// Rows of a table by index: the embedding and its gradient; of tokens by choice, where there is a divisor.
#include "runtime/Device/TableIndex.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// result[i] = table[indices[i]], rows of row_bytes; with a divisor table[indices[i] / divisor]: indices are choices,
/// so many of each row.
class HostGather : public HostStep {
public:
  explicit HostGather(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Gather &gather = from.step.gather();
    ZTC_RETURN_IF_ERROR(resolve(from, {3}));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {gather.table_rows(), gather.row_bytes()}, 1));
    ZTC_RETURN_IF_ERROR(requireElements(from, 1, {gather.rows()}));
    ZTC_RETURN_IF_ERROR(requireElements(from, 2, {gather.rows(), gather.row_bytes()}, 1));
    rows_ = gather.rows();
    rowBytes_ = gather.row_bytes();
    tableRows_ = gather.table_rows();
    choices_ = gather.divisor();
    return Status::ok();
  }

  Status execute(uint32_t) override {
    const std::byte *table = pointer<std::byte>(0);
    const int32_t *indices = pointer<int32_t>(1);
    std::byte *result = pointer<std::byte>(2);
    const uint64_t divisor = std::max<uint64_t>(1, choices_);
    std::atomic<uint64_t> wrong{UINT64_MAX};
    resources_.pool.parallelFor(rows_, 16, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t row = begin; row < end; ++row) {
        const uint64_t index = indices[row] < 0 ? UINT64_MAX : uint64_t(indices[row]) / divisor;
        if (index >= tableRows_)
          wrong.store(row, std::memory_order_relaxed);
        else
          std::memcpy(result + row * rowBytes_, table + index * rowBytes_, rowBytes_);
      }
    });
    uint64_t row = wrong.load(std::memory_order_relaxed);
    if (row != UINT64_MAX && choices_)
      return invalidArgument(fmt::format("choice {} at position {} is outside the {} choices of each of {} tokens",
                                         indices[row], row, choices_, tableRows_));
    if (row != UINT64_MAX)
      return outsideTable(indices[row], row, tableRows_);
    return Status::ok();
  }

private:
  uint64_t rows_ = 0, rowBytes_ = 0, tableRows_ = 0;
  uint64_t choices_ = 0; ///< the divisor; 0: indices are rows
};

/// dtable[indices[i]] += dy[i], in f32 and in the order of i; dy may be bf16 or f16. Workers own columns: every sum has
/// one order, and no two workers meet.
class HostScatterAdd : public HostStep {
public:
  explicit HostScatterAdd(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::ScatterAdd &scatter = from.step.scatter_add();
    ZTC_RETURN_IF_ERROR(resolve(from, {3}));
    narrowType_ = narrowDataType(scatter.type());
    if (!narrowType_ && scatter.type() != plan::F32)
      return dataLoss(fmt::format("scatter_add of type {}", dataTypeName(scatter.type())));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {scatter.rows()}));
    ZTC_RETURN_IF_ERROR(requireElements(from, 1, {scatter.rows(), scatter.width()}, dataTypeBytes(scatter.type())));
    ZTC_RETURN_IF_ERROR(requireElements(from, 2, {scatter.table_rows(), scatter.width()}));
    rows_ = scatter.rows();
    width_ = scatter.width();
    tableRows_ = scatter.table_rows();
    accumulate_ = scatter.accumulate();
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const int32_t *indices = pointer<int32_t>(0);
    float *dtable = pointer<float>(2);
    if (!addsNow(accumulate_, microstep))
      resources_.pool.parallelFor(tableRows_, 16, [&](uint32_t, uint64_t begin, uint64_t end) {
        std::memset(dtable + begin * width_, 0, (end - begin) * width_ * sizeof(float));
      });
    std::atomic<uint64_t> wrong{UINT64_MAX};
    // Slices of 16 floats: no cache line has two owners (where the width allows it).
    resources_.pool.parallelFor(width_, 16, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t row = 0; row < rows_; ++row) {
        if (uint64_t(uint32_t(indices[row])) >= tableRows_) {
          wrong.store(row, std::memory_order_relaxed);
          continue;
        }
        addTo(dtable + uint64_t(indices[row]) * width_ + begin, row * width_ + begin, end - begin);
      }
    });
    uint64_t row = wrong.load(std::memory_order_relaxed);
    if (row != UINT64_MAX)
      return outsideTable(indices[row], row, tableRows_);
    return Status::ok();
  }

private:
  /// Adds `count` elements of dy from `first` on.
  void addTo(float *to, uint64_t first, uint64_t count) const {
    if (narrowType_)
      return addWidened(to, pointer<uint16_t>(1) + first, count, *narrowType_);
    const float *from = pointer<float>(1) + first;
    for (uint64_t i = 0; i < count; ++i)
      to[i] += from[i];
  }

  std::optional<NarrowType> narrowType_; ///< of dy; nothing: f32
  uint64_t rows_ = 0, width_ = 0, tableRows_ = 0;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareHostGather(const HostPrepare &from) {
  auto step = std::make_unique<HostGather>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareHostScatterAdd(const HostPrepare &from) {
  auto step = std::make_unique<HostScatterAdd>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
