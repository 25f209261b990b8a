// How many of an ordered list a budget of memory has room for.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc {

/// The largest number, at most `count`, of things that `keep` lets a copy of `plan` keep so that the peak of each of
/// `shapes` stays within the budget; 0 where none does. More things never take less memory. Fails where the planner
/// does.
StatusOr<size_t> mostThatFit(const plan::Plan &plan, size_t count, llvm::ArrayRef<PlanShape> shapes,
                             uint64_t budgetBytes, llvm::function_ref<void(plan::Plan &, size_t)> keep);

} // namespace ztc
