// A whole run of ztc-run, from a plan and options to a trained model, a checkpoint or some text.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/Device.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Train/Options.h"
#include <cstdio>
#include <memory>

namespace ztc {

enum class RunEnd {
  Done,
  Stopped, ///< by a signal, resumable: exit 3
};

/// Where a run talks to a person.
struct RunScreen {
  std::FILE *out = stdout;
  bool live = false; ///< out is a terminal: one line that is rewritten
};

/// Runs the plan on `device`. A failure names what failed, where, and what to do.
StatusOr<RunEnd> runPlan(const RunOptions &options, LoadedPlan loaded, std::unique_ptr<Device> device,
                         const RunScreen &screen);

} // namespace ztc
