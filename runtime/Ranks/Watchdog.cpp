#include "runtime/Ranks/Watchdog.h"
#include "runtime/Core/Sizes.h"
#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ztc {

namespace {

bool isWaiting(const RankProgress &p) {
  return p.inCollective || !p.waitsFor.empty();
}

std::string whatItWaitsIn(const RankProgress &p) {
  return p.inCollective ? p.collective : fmt::format("'{}'", p.waitsFor);
}

} // namespace

std::string describeProgress(const RankProgress &p) {
  std::string text =
      p.phase == "training" ? fmt::format("step {}", p.step) : fmt::format("{}, step {}", p.phase, p.step);
  if (p.bytes && p.phase != "training")
    text += fmt::format(", {} read or written", formatSize(p.bytes));
  if (!p.place.empty())
    text += ", " + p.place;
  if (p.inCollective)
    text += ", in " + p.collective;
  else if (!p.waitsFor.empty())
    text += fmt::format(", waits for all ranks in '{}'", p.waitsFor);
  if (!p.inCollective && !p.collective.empty())
    text += ", after " + p.collective;
  return text;
}

std::string describeRanks(const std::vector<RankState> &states, const std::vector<bool> &gone) {
  std::string text;
  for (size_t r = 0; r < states.size(); ++r)
    if (!gone[r])
      text += fmt::format("\n  rank {}: {}{}", r, describeProgress(states[r].progress),
                          states[r].silentSeconds >= Watchdog::kSilentSeconds
                              ? fmt::format(" (not heard for {:.0f} s)", states[r].silentSeconds)
                              : fmt::format(" (not moved for {:.0f} s)", states[r].stillSeconds));
  return text;
}

Watchdog::Watchdog(uint32_t world, double timeoutSeconds)
    : timeout_(timeoutSeconds), states_(world), gone_(world),
      told_(world, std::min(kStragglerSeconds, timeoutSeconds)) {}

void Watchdog::report(uint32_t rank, RankProgress progress) {
  RankState &state = states_[rank];
  state.silentSeconds = 0;
  if (progress.work != state.progress.work || progress.bytes != state.progress.bytes) {
    state.stillSeconds = 0;
    told_[rank] = std::min(kStragglerSeconds, timeout_);
  }
  state.progress = std::move(progress);
}

void Watchdog::advance(double seconds) {
  for (RankState &state : states_) {
    state.silentSeconds += seconds;
    state.stillSeconds += seconds;
  }
}

std::optional<Hang> Watchdog::check() const {
  std::optional<uint32_t> silent, still;
  bool oneMoves = false;
  for (uint32_t r = 0; r < states_.size(); ++r) {
    if (gone_[r])
      continue;
    if (!silent || states_[r].silentSeconds > states_[*silent].silentSeconds)
      silent = r;
    oneMoves |= states_[r].stillSeconds < timeout_;
    // The one to blame is one that waits for nobody.
    if (!still || (isWaiting(states_[*still].progress) && !isWaiting(states_[r].progress)))
      still = r;
  }
  if (!silent)
    return std::nullopt;
  double silence = states_[*silent].silentSeconds;
  if (silence >= timeout_ || (!oneMoves && silence >= kSilentSeconds))
    return Hang{*silent, fmt::format("rank {} was not heard for {:.0f} s: its process is stopped or its host cannot be "
                                     "reached (--timeout={:g}); it was last heard in {}{}",
                                     *silent, silence, timeout_, describeProgress(states_[*silent].progress),
                                     describeRanks(states_, gone_))};
  if (oneMoves)
    return std::nullopt;
  return Hang{*still, fmt::format("no rank has moved for {:.0f} s (--timeout={:g}), the run hangs{}",
                                  states_[*still].stillSeconds, timeout_, describeRanks(states_, gone_))};
}

std::optional<std::string> Watchdog::takeStraggler() {
  std::optional<uint32_t> mover, waiter;
  uint32_t waiters = 0;
  for (uint32_t r = 0; r < states_.size(); ++r) {
    if (gone_[r])
      continue;
    if (!isWaiting(states_[r].progress)) {
      if (!mover || states_[r].stillSeconds < states_[*mover].stillSeconds)
        mover = r;
    } else if (states_[r].stillSeconds >= told_[r]) {
      told_[r] = 2 * states_[r].stillSeconds;
      ++waiters;
      if (!waiter || states_[r].stillSeconds > states_[*waiter].stillSeconds)
        waiter = r;
    }
  }
  if (!mover || !waiter)
    return std::nullopt;
  const RankState &state = states_[*waiter];
  return fmt::format("rank {}{} has waited {:.0f} s in {} of step {} for rank {} ({})", *waiter,
                     waiters > 1 ? fmt::format(" (and {} more)", waiters - 1) : "", state.stillSeconds,
                     whatItWaitsIn(state.progress), state.progress.step, *mover,
                     describeProgress(states_[*mover].progress));
}

} // namespace ztc
