// `ztc-run --ranks N`: starts one process per rank, watches over them and is not a rank itself.
#pragma once
#include "runtime/Ranks/LaunchEnvironment.h"
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// How the ranks of a launcher ended.
struct LaunchEnd {
  int exitStatus = 0;       ///< the whole run's: 0 done, 1 failed, 2 usage, 3 stopped by a signal
  bool hasLostRank = false; ///< what it failed by: a rank that a signal ended, or that was not heard of
  uint32_t lostRank = 0;    ///< the one that ended first
  bool wasStopped = false;  ///< somebody asked it to stop
};

/// How the line begins that tells of a second SIGINT: a rank's that knows what is lost, else the launcher's.
inline constexpr std::string_view kInterruptedAgain = "ztc-run: interrupted again: ";

/// What a rank exits with, under this launcher alone, where others are lost: that is not a fault of its own.
inline constexpr int kRankLostStatus = 4;

/// Starts this program again, with `arguments`, once for each rank of this host, in rank order, and returns when all
/// have ended.
///
/// - SIGINT, SIGTERM, SIGUSR1 and SIGHUP are passed on; a second SIGINT ends everything, and a line says so.
/// - Once a rank has failed the others get kGraceSeconds to say why they end, then they are killed, stopped ones too.
///   No rank survives the launcher.
/// - What ranks other than 0 print goes to stderr after "rank K: "; an error that several ranks have is printed once.
StatusOr<LaunchEnd> launchRanks(const LaunchOrder &order, const std::vector<std::string> &arguments);

/// The exit status of a run whose ranks ended with these: a failure before usage, usage before a stop.
int exitStatusOf(const std::vector<int> &rankStatus);

} // namespace ztc
