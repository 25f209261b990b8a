#include "runtime/Train/RunSummary.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/Progress.h"
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ztc {

/// While steps were computed; evaluations and checkpoints are not in it.
static double tokensPerSecond(const LoopTotals &totals) {
  return totals.stepSeconds > 0 ? double(totals.tokens) / totals.stepSeconds : 0;
}

static double otherSeconds(const RunSummary &s) {
  return std::max(0.0, s.seconds - s.totals.stepSeconds - s.totals.evalSeconds - s.totals.sampleSeconds -
                           s.totals.saveSeconds - s.loadingSeconds - s.exportSeconds);
}

/// A disk wears out: what a run has written there is said.
static std::string movedText(const MovedBytes &moved) {
  std::string text = "moved   ";
  if (moved.hostIn || moved.hostOut)
    text += fmt::format("{} from host memory and {} there, ", formatSize(moved.hostIn), formatSize(moved.hostOut));
  if (moved.diskIn || moved.diskOut)
    text += fmt::format("{} read from the disk and {} written there, ", formatSize(moved.diskIn),
                        formatSize(moved.diskOut));
  const double seconds = double(moved.nanoseconds) / 1e9;
  if (seconds > 0)
    text += fmt::format("in {:.2f} s of moves ({:.2f} GB/s), ", seconds,
                        double(moved.hostIn + moved.hostOut + moved.diskIn + moved.diskOut) / 1e9 / seconds);
  return text + fmt::format("{:.2f} s waited for\n", double(moved.waitedNanoseconds) / 1e9);
}

std::string summaryText(const RunSummary &s) {
  std::string text =
      fmt::format("done    {} step{} in {}: {} tokens at {} tokens/s", s.totals.steps, s.totals.steps == 1 ? "" : "s",
                  humanSeconds(s.seconds), humanCount(double(s.totals.tokens)), humanCount(tokensPerSecond(s.totals)));
  if (s.totals.unpadded < s.totals.tokens)
    text += fmt::format(", {:.1f} % of them padding", 100 * (1 - double(s.totals.unpadded) / double(s.totals.tokens)));
  for (const BestEvaluation &best : s.totals.bestEvaluations)
    if (best.loss)
      text += fmt::format(", best held-out loss{}{} {:.4f} after {} steps", best.name.empty() ? "" : " of ", best.name,
                          *best.loss, best.step);
  if (s.restarts)
    text += fmt::format(", {} restart{}", s.restarts, s.restarts == 1 ? "" : "s");
  if (s.totals.spikes)
    text += fmt::format(", {} update{} dropped as spikes", s.totals.spikes, s.totals.spikes == 1 ? "" : "s");
  text += fmt::format(", peak {}\n", formatSize(s.peakBytes));
  if (s.moved)
    text += movedText(*s.moved);
  text += "time    ";
  bool isFirst = true;
  for (const auto &[name, seconds] :
       {std::pair("steps", s.totals.stepSeconds), std::pair("evaluation", s.totals.evalSeconds),
        std::pair("samples", s.totals.sampleSeconds), std::pair("checkpoints", s.totals.saveSeconds),
        std::pair("loading", s.loadingSeconds), std::pair("export", s.exportSeconds),
        std::pair("other", otherSeconds(s))}) {
    const double share = s.seconds > 0 ? seconds / s.seconds : 0;
    if (share < 0.001)
      continue;
    text += fmt::format("{}{} {:.1f} %", isFirst ? "" : ", ", name, 100 * share);
    isFirst = false;
  }
  return text;
}

/// The best of the set that decides, and where sets have names that of each.
static void addBestEvaluations(const RunSummary &s, JsonObject &line) {
  const std::vector<BestEvaluation> &all = s.totals.bestEvaluations;
  if (s.watchedSet < all.size() && all[s.watchedSet].loss)
    line.add("best_eval_loss", *all[s.watchedSet].loss).add("best_eval_step", all[s.watchedSet].step);
  nlohmann::ordered_json named;
  for (const BestEvaluation &best : all)
    if (!best.name.empty() && best.loss)
      named[best.name] = {{"eval_loss", *best.loss}, {"step", best.step}};
  if (!named.empty())
    line.addRaw("best_evals", named.dump());
}

std::string summaryJson(const RunSummary &s) {
  JsonObject line;
  line.begin().add("event", "summary").add("steps", s.totals.steps).add("tokens", s.totals.tokens);
  if (s.totals.unpadded < s.totals.tokens)
    line.add("tokens_without_padding", s.totals.unpadded);
  line.add("seconds", s.seconds).add("tokens_per_second", tokensPerSecond(s.totals));
  line.add("peak_bytes", s.peakBytes).add("step_seconds", s.totals.stepSeconds);
  line.add("eval_seconds", s.totals.evalSeconds).add("sample_seconds", s.totals.sampleSeconds);
  line.add("save_seconds", s.totals.saveSeconds);
  line.add("loading_seconds", s.loadingSeconds).add("export_seconds", s.exportSeconds);
  line.add("other_seconds", otherSeconds(s));
  addBestEvaluations(s, line);
  if (s.moved)
    line.add("host_in_bytes", s.moved->hostIn)
        .add("host_out_bytes", s.moved->hostOut)
        .add("disk_read_bytes", s.moved->diskIn)
        .add("disk_written_bytes", s.moved->diskOut)
        .add("move_seconds", double(s.moved->nanoseconds) / 1e9)
        .add("move_wait_seconds", double(s.moved->waitedNanoseconds) / 1e9);
  if (s.totals.lostPatience)
    line.add("ended_by", "patience");
  if (s.restarts)
    line.add("restarts", s.restarts);
  if (s.totals.spikes)
    line.add("spikes", s.totals.spikes);
  return std::string(line.end());
}

} // namespace ztc
