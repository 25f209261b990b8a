#include "runtime/Train/Progress.h"
#include "runtime/Core/Print.h"
#include <cmath>
#include <fmt/format.h>

namespace ztc {

std::string humanSeconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9)
    return "?";
  auto whole = uint64_t(std::llround(seconds));
  if (whole < 60)
    return fmt::format("{}s", whole);
  if (whole < 3600)
    return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string humanCount(double count) {
  if (count >= 1e12)
    return fmt::format("{:.2f} T", count / 1e12);
  if (count >= 1e9)
    return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6)
    return fmt::format("{:.2f} M", count / 1e6);
  return count >= 1e3 ? fmt::format("{:.1f} k", count / 1e3) : fmt::format("{:.0f}", count);
}

std::string progressText(const ProgressState &state) {
  const std::string epoch = state.epoch > 0 ? fmt::format("  epoch {:.2f}", state.epoch) : "";
  const std::string tokens = state.tokens ? fmt::format("  {} tokens", humanCount(double(state.tokens))) : "";
  const std::string numbers = state.hasTargets ? fmt::format("loss {:.4f}  norm {:.3f}", state.loss, state.gradientNorm)
                                               : "no target is counted";
  return fmt::format("step {}/{}  {}  lr {:.2e}  {:.0f} tokens/s{}{}{}{}  left {}", state.step, state.steps, numbers,
                     state.learningRate, state.tokensPerSecond, epoch, tokens, state.device.empty() ? "" : "  ",
                     state.device, humanSeconds(state.secondsLeft));
}

bool Progress::isDue(double now, bool last) const {
  return out_ && (last || (now - lastShown_ >= (live_ ? kLiveSeconds : kPlainSeconds) && unreadBytes(out_) == 0));
}

void Progress::show(std::string_view text, double now) {
  if (!out_)
    return;
  lastShown_ = now;
  if (live_)
    print(out_, "\r\033[K{}", text);
  else
    print(out_, "{}\n", text);
  lineOpen_ = live_;
}

void Progress::note(std::string_view text) {
  if (!out_)
    return;
  finishLine();
  print(out_, "{}\n", printable(text));
}

void Progress::finishLine() {
  if (!lineOpen_)
    return;
  print(out_, "\n");
  lineOpen_ = false;
}

} // namespace ztc
