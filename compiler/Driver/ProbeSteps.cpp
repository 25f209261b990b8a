#include "compiler/Driver/ProbeSteps.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ztc::driver {

/// So many steps are kept, of some MiB each: searches with more and more below the device come back to few choices.
static constexpr size_t kKeptSteps = 32;

/// Whether a choice of recomputation may change what becomes of a function by the end of phase `schedule`.
static bool isChangedByChoice(func::FuncOp function) {
  // Updates in the backward are joined to the micro-step.
  return graph::isEntry(function, graph::Entry::Microstep) ||
         (graph::isEntry(function, graph::Entry::Update) &&
          graph::updatesInBackward(function->getParentOfType<ModuleOp>()));
}

static void eraseFunctions(ModuleOp module, llvm::function_ref<bool(func::FuncOp)> isErased) {
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isErased(function))
      function.erase();
}

LogicalResult ProbeSteps::prepare(ModuleOp sharded, RunPhases run) {
  changed = sharded.clone();
  if (isWhole)
    return success();
  for (auto function : changed->getOps<func::FuncOp>())
    order.push_back(function.getName().str());
  unchanged = sharded.clone();
  eraseFunctions(*unchanged, isChangedByChoice);
  eraseFunctions(*changed, [](func::FuncOp function) { return !isChangedByChoice(function); });
  return run(*unchanged, {Phase::Fuse, Phase::Schedule});
}

void ProbeSteps::addUnchanged(ModuleOp step) {
  Operation *before = nullptr;
  for (auto function : step.getOps<func::FuncOp>()) {
    before = function;
    break;
  }
  OpBuilder builder(step.getContext());
  if (before)
    builder.setInsertionPoint(before);
  else
    builder.setInsertionPointToEnd(step.getBody());
  for (const std::string &name : order) {
    if (auto here = step.lookupSymbol<func::FuncOp>(name))
      builder.setInsertionPointAfter(here);
    else if (auto other = unchanged->lookupSymbol<func::FuncOp>(name))
      builder.insert(other->clone());
  }
  // What the passes have noted of the functions is noted of the module.
  for (NamedAttribute attribute : (*unchanged)->getDiscardableAttrs())
    if (!step->hasAttr(attribute.getName()))
      step->setAttr(attribute.getName(), attribute.getValue());
}

FailureOr<ProbeSteps::Step> ProbeSteps::make(RunPhases run) {
  Step step{OwningOpRef<ModuleOp>(changed->clone())};
  if (failed(run(*step.module, {Phase::Recompute})))
    return failure();
  step.againFlops = recomputeFlops(*step.module);
  if (failed(run(*step.module, {Phase::Fuse, Phase::Schedule})))
    return failure();
  if (unchanged)
    addUnchanged(*step.module);
  if (failed(run(*step.module, {Phase::Assign, Phase::Plan})))
    return failure();
  return step;
}

FailureOr<ProbeSteps::Step> ProbeSteps::step(ModuleOp sharded, const std::string &choice, bool isKept, RunPhases run) {
  if (!changed && failed(prepare(sharded, run)))
    return failure();
  if (!isKept)
    return make(run);
  auto found = llvm::find_if(kept, [&](const auto &entry) { return entry.first == choice; });
  if (found == kept.end()) {
    FailureOr<Step> made = make(run);
    if (failed(made))
      return failure();
    kept.emplace_front(choice, std::move(*made));
    if (kept.size() > kKeptSteps)
      kept.pop_back();
  } else {
    kept.splice(kept.begin(), kept, found);
  }
  const Step &known = kept.front().second;
  return Step{OwningOpRef<ModuleOp>(known.module.get().clone()), known.againFlops};
}

} // namespace ztc::driver
