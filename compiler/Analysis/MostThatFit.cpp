#include "compiler/Analysis/MostThatFit.h"
#include "runtime/Memory/ArenaSize.h"

namespace ztc {

StatusOr<size_t> mostThatFit(const plan::Plan &plan, size_t count, llvm::ArrayRef<PlanShape> shapes,
                             uint64_t budgetBytes, llvm::function_ref<void(plan::Plan &, size_t)> keep) {
  plan::Plan bare = plan;
  bare.clear_images();
  bare.clear_kernels();
  for (plan::Program &program : *bare.mutable_programs()) // texts are most of what is copied for each number
    for (plan::Step &step : *program.mutable_steps()) {
      step.clear_name();
      step.clear_reason();
    }
  const auto fits = [&](size_t kept) -> StatusOr<bool> {
    plan::Plan tried = bare;
    keep(tried, kept);
    for (const PlanShape &shape : shapes) {
      ZTC_ASSIGN_OR_RETURN(const ArenaSize arena, ArenaSize::of(tried, shape));
      if (arena.largestLiveBytes() > budgetBytes || arena.bytes(budgetBytes) > budgetBytes)
        return false;
    }
    return true;
  };
  size_t below = 0, above = count + 1; // so many fit, so many do not
  while (above - below > 1) {
    const size_t middle = above == count + 1 && below == 0 ? count : (below + above) / 2;
    ZTC_ASSIGN_OR_RETURN(const bool fit, fits(middle));
    (fit ? below : above) = middle;
  }
  return below;
}

} // namespace ztc
