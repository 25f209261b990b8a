// The part of the plan's validation that looks at one step. Only PlanValidator calls it.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// Ok, or DataLoss with the fact. `slotBytes` has one entry for each slot of the plan.
Status validateStep(const plan::Plan &plan, const std::vector<uint64_t> &slotBytes, const plan::Step &step);

} // namespace ztc
