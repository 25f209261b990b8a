// The part of the plan's validation that looks at steps together: streams, events, launch order. Only PlanValidator
// calls it.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// Ok, or DataLoss with program, step and the fact. Steps are valid one by one.
/// (O1) streams are 0 and 1; on stream 1 stand collectives, records and waits only. (O2) an event is recorded once, and
/// waited for later in the same program, on the other stream: no stream can wait for one that waits for it.
/// (O3) a wait in every micro-step is for an event that every micro-step records. (O4) only microstep has steps of the
/// last micro-step. (O5) launch_order ascends over the collectives of a program: the order is total, the same on every
/// rank.
Status validateOrder(const plan::Plan &plan);

} // namespace ztc
