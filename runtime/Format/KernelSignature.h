// How kernels are launched: their code has sizes in it that the plan must not contradict.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>

namespace ztc {

/// Writes into each kernel's record the signatures of the plan's launches, in place of what is there: whoever makes a
/// plan calls it last. A launch whose operands or bucket do not exist is left out; validatePlan names it.
void recordKernelSignatures(plan::Plan &plan);

/// DataLoss where `step`, a launch whose operands and bucket exist, is not among the signatures of `kernel`, which
/// exists too.
Status checkKernelSignature(const plan::Plan &plan, const plan::Step &step, uint32_t kernel);

} // namespace ztc
