// Kernels that the cores of the host run on what lies in its memory, whatever the device is.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <algorithm>

namespace ztc {

/// Whether a step is such a launch: it is on the stream of moves, in whose order it reads what has come down and writes
/// what goes up, and all of its operands lie in the host's memory.
inline bool computesOnHost(const plan::Step &step) {
  return step.has_launch() && step.stream() == 2;
}

/// Whether a plan has any, so that a GPU's run needs kernels for its host.
inline bool computesOnHost(const plan::Plan &plan) {
  return std::any_of(plan.programs().begin(), plan.programs().end(), [](const plan::Program &program) {
    return std::any_of(program.steps().begin(), program.steps().end(),
                       [](const plan::Step &step) { return computesOnHost(step); });
  });
}

} // namespace ztc
