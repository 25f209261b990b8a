#include "compiler/Analysis/ScoresWorkspace.h"
#include "compiler/Analysis/ArenaGrowth.h"
#include "runtime/Format/Steps/AttentionWorkspace.h"
#include "llvm/ADT/STLExtras.h"

namespace ztc {

Status growScoresWorkspace(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes) {
  const std::vector<uint64_t> workspaces = scoresWorkspaces(plan);
  if (workspaces.empty() || llvm::any_of(shapes, [](const PlanShape &shape) { return shape.threads != 0; }))
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(ArenaGrowth growth, ArenaGrowth::of(plan, shapes, budgetBytes));
  for (uint64_t bytes : workspaces) {
    setScoresWorkspace(plan, bytes);
    ZTC_ASSIGN_OR_RETURN(const bool fits, growth.holds(plan));
    if (fits)
      return Status::ok();
  }
  setScoresWorkspace(plan, 0);
  return Status::ok();
}

} // namespace ztc
