// What a run hands to a plan's slots, where a plan asks for nothing.
#pragma once
#include "runtime/Format/PlanValidator.h"

namespace ztc {

/// Every slot that a run writes or reads is absent; those whose field may be missing stay as they are.
inline void bindNothing(plan::Bindings &bindings) {
  for (auto set : {&plan::Bindings::set_tokens, &plan::Bindings::set_targets, &plan::Bindings::set_step_parameters,
                   &plan::Bindings::set_loss, &plan::Bindings::set_eval_loss, &plan::Bindings::set_gradient_norm,
                   &plan::Bindings::set_finite, &plan::Bindings::set_position, &plan::Bindings::set_logits,
                   &plan::Bindings::set_staging, &plan::Bindings::set_first_token})
    (bindings.*set)(kAbsent);
}

} // namespace ztc
