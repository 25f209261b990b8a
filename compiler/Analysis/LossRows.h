// How many rows of logits a GPU works on at a time: a plan's choice by the memory that it leaves free.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/Steps/LossRows.h"
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace ztc {

/// Gives the loss as few chunks as fit: each chunk but the first reads and writes the gradient of the whole head, and
/// products of more rows fill a GPU better. In each of `shapes` the peak grows to at most `budgetBytes`; without a
/// budget, or where it is larger already, it does not grow. A plan for hosts (shapes with threads) stays as it is.
/// Fails where the planner does.
Status growLossRows(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes);

} // namespace ztc
