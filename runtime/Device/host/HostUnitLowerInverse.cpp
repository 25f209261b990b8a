// The inverse of each matrix with ones on the diagonal and zeros above it.
#include "runtime/Device/host/HostStep.h"
#include <algorithm>

namespace ztc {
namespace {

class HostUnitLowerInverse : public HostStep {
public:
  explicit HostUnitLowerInverse(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    count_ = from.step.unit_lower_inverse().count();
    size_ = from.step.unit_lower_inverse().size();
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    ZTC_RETURN_IF_ERROR(requireElements(from, A, {count_, size_, size_}));
    return requireElements(from, Y, {count_, size_, size_});
  }

  Status execute(uint32_t) override {
    resources_.pool.parallelFor(count_, 4, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t matrix = begin; matrix < end; ++matrix)
        invert(pointer<float>(A) + matrix * size_ * size_, pointer<float>(Y) + matrix * size_ * size_);
    });
    return Status::ok();
  }

private:
  enum Operands { A, Y };

  /// Row after row. What is added in the end is 0 up to a multiple of kLanes columns, so that loops have few ends.
  void invert(const float *a, float *y) const {
    constexpr uint64_t kLanes = 16;
    for (uint64_t i = 0; i < size_; ++i) {
      float *row = y + i * size_;
      std::fill_n(row, size_, 0.0f);
      row[i] = 1;
      for (uint64_t j = 0; j < i; ++j) {
        const float factor = a[i * size_ + j];
        const float *other = y + j * size_;
        const uint64_t columns = std::min(size_, (j / kLanes + 1) * kLanes);
        for (uint64_t c = 0; c < columns; ++c)
          row[c] -= factor * other[c];
      }
    }
  }

  uint64_t count_ = 0, size_ = 0;
};

} // namespace

PreparedStep prepareHostUnitLowerInverse(const HostPrepare &from) {
  auto step = std::make_unique<HostUnitLowerInverse>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
