// When a plan updates its buckets.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <algorithm>

namespace ztc {

/// Whether microstep updates each bucket as soon as its gradient is complete (ztc compile --update=in-backward): there
/// is no program update, a step is one micro-step, buckets have no gradient slots. Of a valid plan that can train.
inline bool updatesInBackward(const plan::Plan &plan) {
  const auto has = [&](std::string_view name) {
    return std::any_of(plan.programs().begin(), plan.programs().end(),
                       [&](const plan::Program &program) { return program.name() == name; });
  };
  return has("microstep") && !has("update");
}

} // namespace ztc
