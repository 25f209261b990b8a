// What a person sees while a run goes on: one live line on a terminal, else a plain line every few seconds.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace ztc {

/// A time for a person: "42s", "3m07s", "2h05m".
std::string humanSeconds(double seconds);

/// A number for a person: "512", "20.5 k", "1.23 M", "4.56 G".
std::string humanCount(double count);

struct ProgressState {
  uint64_t step = 0;  ///< from 0, as in the log
  uint64_t steps = 0; ///< N
  double loss = 0;
  double gradientNorm = 0;
  double learningRate = 0;
  bool hasTargets = true; ///< else there is neither loss nor norm
  double tokensPerSecond = 0;
  double epoch = 0;    ///< passes over the data so far, 0 where there are none
  uint64_t tokens = 0; ///< seen so far, by all ranks, before a resume too; 0: not said
  double secondsLeft = 0;
  std::string device = {}; ///< what it says about itself, or empty
};

/// The text of one progress line, without end of line.
std::string progressText(const ProgressState &state);

class Progress {
public:
  /// Writes to `out`, which stays open; null: says nothing (ranks other than the first). `live` rewrites one line in
  /// place.
  Progress(std::FILE *out, bool live) : out_(out), live_(live) {}
  ~Progress() { finishLine(); } // NOLINT(bugprone-exception-escape): short texts
  /// True where the time has come for a line, so that its text need not be made for nothing. `now` in seconds of a
  /// steady clock.
  bool isDue(double now, bool last) const;
  void show(const ProgressState &state, double now) { show(progressText(state), now); }
  /// The same for what else takes its time.
  void show(std::string_view text, double now);
  /// A line of its own, after the live one.
  void note(std::string_view text);
  /// Ends a live line, so that what follows starts at the left.
  void finishLine();

private:
  static constexpr double kPlainSeconds = 5.0;
  static constexpr double kLiveSeconds = 0.1;
  std::FILE *out_;
  bool live_;
  bool lineOpen_ = false;
  double lastShown_ = -1e300;
};

} // namespace ztc
