// How many scores of attention's gradient cuDNN may keep: a plan's choice by the memory that it leaves free.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace ztc {

/// Gives the gradients of attention the largest workspace that fits (runtime/Format/Steps/AttentionWorkspace.h): with
/// the cotangents of its scores in memory cuDNN is faster than without, the more so the fewer parts it takes. The
/// logits of the loss, which are not there at the same time, often leave room. The peak grows as in growLossRows. A
/// plan for hosts stays as it is. Fails where the planner does.
Status growScoresWorkspace(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes);

} // namespace ztc
