// The single files that a run writes: --log-json, --trace, --dump-gradients.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Train/Options.h"

namespace ztc {

/// Before anything is loaded: an error where one of them is a file that the run reads (plan, data, weights, ...),
/// whatever --overwrite says, or is another option's too; and where a trace or gradients could not be written in the
/// end because a folder stands there, or their own one is not there or read-only. Devices and pipes take everything.
Status checkOutputFiles(const RunOptions &options, const plan::Plan &plan);

} // namespace ztc
