// --restarts: a run that has lost a rank goes on from its newest checkpoint.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Ranks/Launcher.h"
#include "runtime/Train/Options.h"
#include <string>
#include <vector>

namespace ztc {

/// InvalidArgument where somebody else than this program starts the ranks, or some of them on other hosts.
Status checkRestarts(const RunOptions &options, const RankIdentity *rank);

/// Starts the ranks of this host as `order` says, and up to --restarts times again after one of them was lost: on as
/// many ranks from the newest checkpoint of this run; where that was lost too before it had saved another one, on fewer
/// that divide the global batch. Returns the run's exit status; at the end of its restarts it has said how to go on.
StatusOr<int> superviseRanks(const RunOptions &options, const plan::Plan &plan, const LaunchOrder &order,
                             const std::vector<std::string> &arguments);

} // namespace ztc
