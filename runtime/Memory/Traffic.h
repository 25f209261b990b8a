// What the collectives of a plan send.
#pragma once
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <cstdint>

namespace ztc {

/// Bytes that each rank sends per optimizer step, by kind of collective. A gather or a reduction of a bucket sends
/// (W - 1) shards, padding included.
struct SentBytes {
  uint64_t allGather = 0;
  uint64_t reduceScatter = 0;
  uint64_t allReduce = 0; ///< of scalars: W - 1 of them each
  /// `sent_bytes` of logs and reports: parameters and gradients, without the scalars.
  uint64_t parametersAndGradients() const { return allGather + reduceScatter; }
};

/// Bytes that a rank moves between its device and the spaces below, per optimizer step. Out: away from the device.
struct MoveTraffic {
  uint64_t hostIn = 0, hostOut = 0, diskIn = 0, diskOut = 0;
};
/// `memory` is the layout of `plan` for `shape`.
MoveTraffic moveTraffic(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape);

/// One optimizer step of shape.accumulate micro-steps on shape.world ranks; evaluation and generation are not in it.
SentBytes sentBytes(const plan::Plan &plan, const PlanShape &shape);

} // namespace ztc
