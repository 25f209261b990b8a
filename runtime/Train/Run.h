// A whole run of ztc-run, from a plan and options to a trained model, a checkpoint or some text.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/Device.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Ranks/RankContext.h"
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

/// Runs the plan on `device` as one of `ranks`; every rank has the same options and plan. A failure names what failed,
/// where, and what to do; what all ranks can see alike comes back on all of them.
StatusOr<RunEnd> runPlan(const RunOptions &options, LoadedPlan loaded, std::unique_ptr<Device> device,
                         const RunScreen &screen, RankContext ranks);

} // namespace ztc
