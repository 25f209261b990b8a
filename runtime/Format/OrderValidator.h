// The part of the plan's validation that looks at steps together: streams, events, launch order. Only PlanValidator
// calls it.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// Ok, or DataLoss with program, step and the fact. Steps are valid one by one.
/// - Streams are 0 to 2: stream 1 holds collectives, records and waits only, stream 2 moves, what the host computes for
///   them, records and waits.
/// - An event is recorded once, and waited for later in the same program, in the micro-steps that record it. Of two
///   streams where one waits for the other one is stream 0.
/// - Only microstep has steps of its first or last micro-step alone, and steps that depend on the number of
///   micro-steps; the latter compute.
/// - launch_order ascends over the collectives of a program: the order is total, the same on every rank. A step that
///   one rank alone runs computes on stream 0.
/// - No step touches what a move on another stream reads or writes before it has waited for it; a wait of the
///   computation names what moved until then, and a program ends after all its moves.
/// - A gather of the first micro-step alone writes a slot that is kept; one that the update has made before, a carried
///   slot. What only the first micro-step writes is kept where others read it, and nothing else writes it.
Status validateOrder(const plan::Plan &plan);

} // namespace ztc
