#include "runtime/Train/RankComparison.h"
#include "runtime/Core/Random.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace ztc {

static std::string compared(const ComparedLine &line) {
  return fmt::format("{} {}", line.name, line.value);
}

static std::string told(const ComparedLine &line) {
  std::string text = fmt::format("{} {}", line.name, line.shown.empty() ? line.value : line.shown);
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' '; }, ' '); // a path may hold anything
  return text;
}

ComparedLines linesOfOptions(const RunOptions &o, const std::string &plan) {
  const OptimizerSettings &s = o.optimizer;
  const auto count = [](const std::optional<uint64_t> &value) { return value ? std::to_string(*value) : "none"; };
  const auto given = [](const std::string &value) { return value.empty() ? "none" : "given"; };
  return {{"the plan", plan, fmt::format("{} (SHA-256 {})", o.plan, plan)},
          {"--generate", count(o.generate)},
          {"--prompt", o.prompt ? fmt::format("of checksum {:x}", hashName(*o.prompt)) : "none"},
          {"--data", o.data.empty() ? "none" : "given"},
          {"--eval-data", o.evalData.empty() ? "none" : fmt::format("of {} files", o.evalData.size())},
          {"--resume", given(o.resume)},
          {"--save", given(o.save)},
          {"--export", given(o.exportFolder)},
          {"--deterministic", o.deterministic ? "yes" : "no"},
          {"--lr", fmt::format("{}", o.learningRate)},
          {"--schedule", std::to_string(static_cast<int>(o.schedule))},
          {"--warmup", o.warmupShare ? fmt::format("{} %", 100 * *o.warmupShare) : std::to_string(o.warmup)},
          {"--min-lr-ratio", fmt::format("{}", o.minLrRatio.value_or(kDefaultMinLrRatio))},
          {"--beta1", fmt::format("{}", s.beta1)},
          {"--beta2", fmt::format("{}", s.beta2)},
          {"--epsilon", fmt::format("{}", s.epsilon)},
          {"--momentum", fmt::format("{}", s.momentum)},
          {"--nesterov", s.nesterov ? "on" : "off"},
          {"--weight-decay", fmt::format("{}", s.weightDecay)},
          {"--clip", clipText(s.clipBy, s.clip)},
          {"--loss-scale", fmt::format("{}", o.lossScale.value_or(0))},
          {"--skip-spikes", fmt::format("{}", o.skipSpikes.value_or(0))},
          {"--stop-after", count(o.stopAfter)},
          {"--eval-every", count(o.evalEvery)},
          {"--eval-only", o.evalOnly ? "on" : "off"},
          {"--eval-choices", given(o.evalChoices)},
          {"--patience", count(o.patience)},
          {"--sample-every", count(o.sampleEvery)},
          {"--sample-tokens", count(o.sampleTokens)},
          {"--sample-prompt",
           fmt::format("of checksum {:x}", hashName(fmt::format("{}", fmt::join(o.samplePrompts, "\n"))))},
          {"--save-every", count(o.saveEvery)},
          {"--keep-best", o.keepBest ? "on " + o.keepBestOf : "off"},
          {"--overwrite", o.overwrite ? "on" : "off"},
          {"--init", o.init},
          {"--dump-gradients", o.dumpGradients},
          {"--export-dtype", o.exportDtype},
          {"--no-save", o.noSave ? "on" : "off"}};
}

ComparedLines linesOfData(const RunOptions &o, const RunFacts &facts, uint64_t accumulate, const DataSet *data,
                          const HeldOutData &heldOut) {
  const auto dataLine = [](const char *name, const DataSet *set,
                           const std::vector<std::string> &files) -> ComparedLine {
    if (!set)
      return {name, "none"};
    return {name, set->fingerprint(), fmt::format("{} ({})", fmt::join(files, " "), set->fingerprint())};
  };
  ComparedLines lines{dataLine("the data", data, o.data),
                      {"--steps", std::to_string(facts.steps)},
                      {"--accumulate", std::to_string(accumulate)},
                      {"--seed", std::to_string(facts.seed)},
                      {"--shuffle", facts.shuffle ? "on" : "off"}};
  for (const auto &[files, set] : heldOut)
    lines.push_back({"the evaluation data", fmt::format("{}={}", files.name, set->fingerprint()),
                     fmt::format("{} ({})", fmt::join(files.files, " "), set->fingerprint())});
  return lines;
}

Status compareRanks(ControlChannel &control, const char *exchange, const ComparedLines &lines) {
  std::string mine;
  for (const ComparedLine &line : lines)
    mine += fmt::format("{}\t{}\n", compared(line), told(line));
  ZTC_ASSIGN_OR_RETURN(const std::string first, fromFirstRank(&control, exchange, mine));
  Status same;
  size_t at = 0;
  for (const ComparedLine &line : lines) {
    const size_t end = std::min(first.find('\n', at), first.size());
    const std::string theirs = first.substr(at, end - at);
    const size_t tab = std::min(theirs.find('\t'), theirs.size());
    if (same.isOk() && theirs.substr(0, tab) != compared(line))
      same = failedPrecondition(
          fmt::format("this rank has {}, rank 0 has {}: all ranks need the same plan, data, options and libraries",
                      told(line), theirs.substr(std::min(tab + 1, theirs.size()))));
    at = std::min(end + 1, first.size());
  }
  return agree(&control, "ranks alike", same);
}

} // namespace ztc
