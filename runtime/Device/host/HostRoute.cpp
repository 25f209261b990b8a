// The order of choices by expert.
#include "runtime/Device/host/HostStep.h"
#include <algorithm>
#include <utility>

namespace ztc {
namespace {

/// A stable counting sort. Parts of the choices are counted and then placed at the same time: a part's rows of an
/// expert come after those of the parts before, so that the result is one for any number of parts.
class HostRoute : public HostStep {
public:
  explicit HostRoute(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Route &route = from.step.route();
    ZTC_RETURN_IF_ERROR(resolve(from, {4}));
    for (size_t index : {Choices, Order, Places})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {route.tokens(), route.choices()}));
    ZTC_RETURN_IF_ERROR(requireElements(from, Starts, {route.experts() + 1}));
    if (!route.experts())
      return dataLoss("a choice of 0 experts");
    rows_ = route.tokens() * route.choices();
    experts_ = route.experts();
    // Below that waking the other workers costs more than it saves.
    constexpr uint64_t kFewestRowsOfPart = 4096;
    parts_ = uint32_t(std::clamp<uint64_t>(rows_ / kFewestRowsOfPart, 1, resources_.pool.threads()));
    next_.resize(parts_ * experts_);
    return Status::ok();
  }

  Status execute(uint32_t) override {
    const int32_t *choices = pointer<int32_t>(Choices);
    int32_t *order = pointer<int32_t>(Order), *places = pointer<int32_t>(Places), *starts = pointer<int32_t>(Starts);
    resources_.pool.forEach(parts_, [&](uint32_t, uint64_t part) {
      int32_t *counts = next_.data() + part * experts_;
      std::fill_n(counts, experts_, 0);
      const WorkRange range = splitRange(rows_, 1, uint32_t(part), parts_);
      for (uint64_t p = range.begin; p < range.end; ++p)
        ++counts[expertOf(choices[p])];
    });
    int32_t row = 0;
    for (uint64_t expert = 0; expert < experts_; ++expert) {
      starts[expert] = row;
      for (uint32_t part = 0; part < parts_; ++part) {
        int32_t &next = next_[part * experts_ + expert];
        row += std::exchange(next, row);
      }
    }
    starts[experts_] = row;
    resources_.pool.forEach(parts_, [&](uint32_t, uint64_t part) {
      int32_t *next = next_.data() + part * experts_;
      const WorkRange range = splitRange(rows_, 1, uint32_t(part), parts_);
      for (uint64_t p = range.begin; p < range.end; ++p) {
        const int32_t at = next[expertOf(choices[p])]++;
        order[at] = int32_t(p);
        places[p] = at;
      }
    });
    return Status::ok();
  }

private:
  enum Operands { Choices, Order, Places, Starts };

  uint64_t expertOf(int32_t choice) const { return uint64_t(std::clamp<int64_t>(choice, 0, int64_t(experts_) - 1)); }

  uint64_t rows_ = 0, experts_ = 0;
  uint32_t parts_ = 1;
  std::vector<int32_t> next_; ///< (parts, experts): how many choices, then the row of the next one
};

} // namespace

PreparedStep prepareHostRoute(const HostPrepare &from) {
  auto step = std::make_unique<HostRoute>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
