// How long gathered parameters live: those that the update of the step before gathers, and those that are kept over
// micro-steps and from forward to backward.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <string>

namespace ztc {

/// At ZeRO-3 `update` gathers the buckets that the next step's first micro-step needs before it computes anything (its
/// first gathers; none of codes, whose scales need all shards), each as soon as it is updated, beside the updates of
/// the others. Their slots live from there through all programs to their last use in the micro-step, which gathers them
/// itself only where no update has (in the first step of a run, and in micro-steps after the first). A plan of another
/// stage, without `update`, or whose shards do not lie on the device, stays as it is.
void gatherEarly(plan::Plan &plan);

/// Keeps gathered buckets ("selective unsharding"): `microstep` gathers each of them once, in its first run, and has it
/// from forward to backward and in all further micro-steps. With a budget as many buckets as let the peak of each of
/// `shapes` stay within it, those first that save the most bytes sent for a byte kept; what is over already keeps
/// nothing. Without one all are kept. A plan of another stage stays as it is. Fails where the planner does.
Status keepGathers(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes);

/// What a plan does with its gathered buckets.
struct GatherLives {
  unsigned gathered = 0;  ///< buckets that training gathers from shards
  unsigned kept = 0;      ///< of these: over micro-steps and from forward to backward
  unsigned early = 0;     ///< of these: by the update before
  uint64_t keptBytes = 0; ///< of the kept ones on one rank
  uint64_t earlyBytes = 0;
};
/// Of ranks of this shape; all 0 on one rank, where nothing is gathered.
GatherLives gatherLives(const plan::Plan &plan, const PlanShape &shape);
/// "of 7 gathered buckets 2 gathered by the update before (5.65 MiB), 4 kept over micro-steps and to the backward (11.1
/// MiB)"; empty where none is.
std::string describeGathers(const plan::Plan &plan, const PlanShape &shape);

} // namespace ztc
