// In which micro-steps a step of program `microstep` is executed.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <cstdint>

namespace ztc {

/// Whether steps of `accumulate` micro-steps execute it at all. What they do not occupies no memory.
inline bool runsAtAll(const plan::Step &step, uint32_t accumulate) {
  return accumulate > 1 ? !step.unless_accumulating() : !step.only_if_accumulating();
}

/// Whether micro-step `microstep` of `accumulate` executes the step. `isCarried`: update has filled the carried slots
/// since the last first micro-step, and nothing has written parameters since.
inline bool runsInMicrostep(const plan::Step &step, uint32_t microstep, uint32_t accumulate, bool isCarried) {
  if (!runsAtAll(step, accumulate) || (step.only_last_microstep() && microstep + 1 < accumulate))
    return false;
  if (step.only_first_microstep() && microstep != 0)
    return false;
  return !(step.unless_carried() && microstep == 0 && isCarried);
}

/// How many of the micro-steps of an optimizer step execute it, in every step but the first of a run.
inline uint32_t runsPerStep(const plan::Step &step, uint32_t accumulate) {
  if (!runsAtAll(step, accumulate))
    return 0;
  if (step.only_last_microstep())
    return 1;
  return (step.only_first_microstep() ? 1 : accumulate) - (step.unless_carried() ? 1 : 0);
}

} // namespace ztc
