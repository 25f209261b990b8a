// Tells ranks that hang from ranks that wait and ranks that are slow. Pure: reports and seconds in, a verdict out.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// "step 12, microstep, 'blocks.0 gather', in all_gather blocks.0": where a rank is, for a person.
std::string describeProgress(const RankProgress &progress);
/// The same for every rank that is there, a line each; ranks that are gone are left out.
std::string describeRanks(const std::vector<RankState> &states, const std::vector<bool> &gone);

/// Counts only the time in which this process ran: where it was stopped or the machine slept, a tick is worth
/// kLongestTick at most, so that the others get the time to be heard first.
class ObservedClock {
public:
  static constexpr double kLongestTick = 1.5;
  /// `now` in seconds of a steady clock. Returns what has passed.
  double advance(double now) {
    double passed = last_ < 0 ? 0 : now - last_;
    last_ = now;
    return passed < kLongestTick ? passed : kLongestTick;
  }

private:
  double last_ = -1;
};

struct Hang {
  uint32_t rank = 0;
  std::string message; ///< several lines: what is wrong, then a line for each rank
};

class Watchdog {
public:
  /// A rank is silent where its reporting thread was not heard, still where it reports and none of its counters moves.
  /// Reports come several times a second, so a rank that was not heard for this long has been stopped.
  static constexpr double kSilentSeconds = 3;
  /// A rank that waits this long for one that moves gets a line, and another one each time the wait has doubled.
  static constexpr double kStragglerSeconds = 30;

  Watchdog(uint32_t world, double timeoutSeconds);
  void report(uint32_t rank, RankProgress progress);
  /// The rank has said that it is done: it is not expected to move.
  void leave(uint32_t rank) { gone_[rank] = true; }
  void advance(double seconds);

  /// Where a rank was silent for the whole timeout, or no rank has moved for that long.
  std::optional<Hang> check() const;
  /// A line about ranks that wait for a slower one; a wait is told at 30 s (or the timeout, where that is shorter), at
  /// 60 s, 120 s, ...
  std::optional<std::string> takeStraggler();
  const std::vector<RankState> &states() const { return states_; }
  const std::vector<bool> &gone() const { return gone_; }

private:
  double timeout_;
  std::vector<RankState> states_;
  std::vector<bool> gone_;
  std::vector<double> told_; ///< the wait at which a rank's straggler line comes next
};

} // namespace ztc
