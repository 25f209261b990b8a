// What a step moves, by the sizes of its operands.
#pragma once
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"

namespace ztc {

/// Bytes that one execution must read and write at least: each operand once, twice where it is read and written; rows
/// by index as many as there are. The scratch of library calls is left out: it stays in caches, or is read as often as
/// the library likes. On a GPU the logits of the loss and the sums over its chunks are not.
uint64_t stepBytes(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const plan::Step &step);

} // namespace ztc
