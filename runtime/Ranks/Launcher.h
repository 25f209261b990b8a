// `ztc-run --ranks N`: starts one process per rank, watches over them and is no rank itself.
#pragma once
#include "runtime/Ranks/LaunchEnvironment.h"
#include <string>
#include <vector>

namespace ztc {

/// Starts this program again, with the same arguments, once for each rank of this host, in rank order, and returns when
/// all have ended: with what the whole run's exit status is (0 done, 1 failed, 2 usage, 3 stopped by a signal).
///
/// - SIGINT, SIGTERM, SIGUSR1 and SIGHUP are passed on; a second SIGINT ends everything.
/// - Once a rank has failed the others get kGraceSeconds to say why they end, then they are killed, stopped ones too.
///   No rank survives the launcher.
/// - What ranks other than 0 print goes to stderr behind "rank K: "; an error that several ranks have is printed once.
StatusOr<int> launchRanks(const LaunchOrder &order, const std::vector<std::string> &arguments);

/// The exit status of a run whose ranks ended with these: a failure before usage, usage before a stop.
int exitStatusOf(const std::vector<int> &rankStatus);

} // namespace ztc
