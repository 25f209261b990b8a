#include "compiler/Analysis/ArenaGrowth.h"
#include <algorithm>

namespace ztc {

StatusOr<ArenaGrowth> ArenaGrowth::of(const plan::Plan &before, llvm::ArrayRef<PlanShape> shapes,
                                      std::optional<uint64_t> budgetBytes) {
  ArenaGrowth growth;
  growth.budgetBytes = budgetBytes.value_or(0);
  for (const PlanShape &shape : shapes) {
    ZTC_ASSIGN_OR_RETURN(ArenaSize size, ArenaSize::of(before, shape));
    const uint64_t surelyThere = std::max(growth.budgetBytes, size.largestLiveBytes());
    growth.shapes.push_back({shape, std::move(size), surelyThere, std::nullopt});
  }
  return growth;
}

/// What stays within the largest live sum of before does so whatever the search for its layout would find, which is
/// spared then: it is so for most plans.
bool ArenaGrowth::holds(OfShape &one, const ArenaSize &now) const {
  const uint64_t least = now.largestLiveBytes();
  std::optional<uint64_t> taken;
  if (least <= one.surelyThere) {
    taken = now.bytes(one.surelyThere);
    if (*taken <= one.surelyThere)
      return true;
  }
  if (!one.limit)
    one.limit = std::max(budgetBytes, one.before.bytes());
  return least <= *one.limit && (taken ? *taken : now.bytes(*one.limit)) <= *one.limit;
}

StatusOr<bool> ArenaGrowth::holds(const plan::Plan &now) {
  for (OfShape &one : shapes) {
    ZTC_ASSIGN_OR_RETURN(const ArenaSize size, ArenaSize::of(now, one.shape));
    if (!holds(one, size))
      return false;
  }
  return true;
}

} // namespace ztc
