// What Muon's orthogonal directions cost.
#pragma once
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <string>

namespace ztc::report {

/// How many matrices one rank each makes orthogonal, what the busiest rank computes for that in a step, in seconds by
/// the cost model, and what the directions send; empty where the plan has none.
std::string describeMuon(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape);

} // namespace ztc::report
