// The transposed matrix of fp8 codes.
#include "runtime/Core/Fp8.h"
#include "runtime/Device/host/HostStep.h"
#include <algorithm>
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
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    if (!rows_ || !columns_ || rows_ % kFp8Tile || columns_ % kFp8Tile)
      return dataLoss(fmt::format("no transposed codes of {} x {} elements", rows_, columns_));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {rows_, columns_}, 1));
    return requireElements(from, 1, {rows_, columns_}, 1);
  }

  Status execute(uint32_t) override {
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
  uint64_t rows_ = 0, columns_ = 0;
};

} // namespace

PreparedStep prepareHostTransposeCodes(const HostPrepare &from) {
  auto step = std::make_unique<HostTransposeCodes>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
