#include "runtime/Train/RunOutput.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/random.h>
#include <utility>

namespace ztc {

/// Twelve hexadecimal digits that no other run has.
static StatusOr<std::string> newRunId() {
  unsigned char bytes[6];
  size_t filled = 0;
  while (filled < sizeof bytes) {
    const ssize_t count = ::getrandom(bytes + filled, sizeof bytes - filled, 0);
    if (count < 0 && errno != EINTR)
      return unavailable("the system gives no random numbers (getrandom)");
    filled += size_t(std::max<ssize_t>(count, 0));
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Status RunOutput::chooseRun() {
  StatusOr<std::string> mine = std::string();
  if (ranks_.isFirst())
    mine = resumed_ && !resumed_->state.run.empty() ? StatusOr<std::string>(resumed_->state.run) : newRunId();
  ZTC_ASSIGN_OR_RETURN(run_, fromFirstRank(&ranks_.control, "run id", mine));
  return Status::ok();
}

/// Whether `name` is that of a checkpoint, of a run that went well or not.
static std::optional<uint64_t> stepOf(const std::string &name) {
  constexpr std::string_view kDiverged = "diverged-";
  return checkpointStep(name.starts_with(kDiverged) ? name.substr(kDiverged.size()) : name);
}

StatusOr<std::string> RunOutput::foreignCheckpoint(const std::string &folder) const {
  if (!isFolder(folder))
    return std::string();
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(folder));
  if (!isResumed()) {
    const auto found = std::ranges::find_if(names, [](const std::string &name) { return stepOf(name).has_value(); });
    return found == names.end() ? std::string() : fmt::format("has {} of another run", *found);
  }
  ZTC_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, readCheckpointEntries(folder));
  for (const CheckpointEntry &entry : entries) {
    if (entry.run != resumed_->state.run)
      return fmt::format("has {} of another run", entry.name);
    // One that is not whole was passed over: it is written again.
    const bool isSkipped = std::ranges::any_of(
        resumed_->skipped, [&](const std::string &sentence) { return sentence.starts_with(entry.name); });
    if (entry.step > resumed_->state.step && !isSkipped)
      return fmt::format("has {}, which is ahead of step {} that this run goes on from", entry.name,
                         resumed_->state.step);
  }
  return std::string();
}

/// The file that makes a folder one of a model, where there is one.
static StatusOr<std::optional<std::string>> modelFile(const std::string &folder) {
  std::optional<std::string> found;
  if (!isFolder(folder))
    return found;
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(folder));
  for (const std::string &name : names) {
    const bool isWeights = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
                           (name.starts_with("pytorch_model") && !name.ends_with(".json"));
    if (isWeights || name == "config.json")
      found = name;
    if (isWeights)
      break;
  }
  return found;
}

Status RunOutput::checkSaveFolder() const {
  if (options_.overwrite)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(const std::string foreign, foreignCheckpoint(saveFolder_));
  if (foreign.empty())
    return Status::ok();
  return failedPrecondition(
      fmt::format("--save: '{0}' {1}: give this run a folder of its own, go on with the other one "
                  "(--resume {0}), or let this run's checkpoints replace it (--overwrite)",
                  saveFolder_, foreign));
}

static Status checkExportFolder(const std::string &folder) {
  ZTC_ASSIGN_OR_RETURN(const std::optional<std::string> file, modelFile(folder));
  if (!file)
    return Status::ok();
  return failedPrecondition(fmt::format("--export: '{}' holds a model already ({}): give this one a folder of its own, "
                                        "or replace the other one (--overwrite)",
                                        folder, *file));
}

/// PLAN-out, or PLAN-out-2 where another run has left something there, and so on.
StatusOr<std::string> RunOutput::chooseDefaultFolder() const {
  const std::string first = defaultOutputFolder(options_.plan);
  for (uint64_t number = 1;; ++number) {
    std::string folder = number == 1 ? first : fmt::format("{}-{}", first, number);
    if (options_.overwrite)
      return folder;
    ZTC_ASSIGN_OR_RETURN(const std::optional<std::string> model, modelFile(folder));
    ZTC_ASSIGN_OR_RETURN(const std::string foreign, foreignCheckpoint(folder));
    if (!model && foreign.empty() && !OutputFolder::isHeld(folder))
      return folder;
  }
}

Status RunOutput::claim(const std::string &folder) {
  const auto mine = [&]() -> Status {
    if (!ranks_.isFirst() || std::ranges::any_of(folders_, [&](const OutputFolder &f) { return f.is(folder); }))
      return Status::ok();
    ZTC_ASSIGN_OR_RETURN(OutputFolder claimed, OutputFolder::claim(folder));
    folders_.push_back(std::move(claimed));
    return Status::ok();
  };
  return agree(&ranks_.control, "output folder", mine());
}

void RunOutput::release(const std::string &folder) {
  std::erase_if(folders_, [&](const OutputFolder &claimed) { return claimed.is(folder); });
}

void RunOutput::saveInto(const std::string &folder) {
  saveFolder_ = folder;
  isDefaultFolder_ = false;
}

Status RunOutput::claimSaveFolder() {
  if (isDefaultFolder_ && export_.folder != saveFolder_ && !savesAtEnd_) {
    // Nobody expected a checkpoint of this run: another one may have taken the folder meanwhile.
    isDefaultFolder_ = false;
    StatusOr<std::string> chosen = std::string();
    if (ranks_.isFirst())
      chosen = chooseDefaultFolder();
    ZTC_ASSIGN_OR_RETURN(saveFolder_, fromFirstRank(&ranks_.control, "default folder", chosen));
  }
  return claim(saveFolder_);
}

std::optional<double> RunOutput::savePeriodSeconds() const {
  if (options_.save.empty())
    return std::nullopt;
  if (options_.savePeriodSeconds || options_.saveEvery)
    return options_.savePeriodSeconds;
  return kDefaultSavePeriodSeconds;
}

SaveOptions RunOutput::saveOptions(SaveKind kind) const {
  return {.kind = kind,
          .keep = options_.keep.value_or(0),
          .keepBest = options_.keepBest,
          .replacesOthers = options_.overwrite,
          .companions = companions_};
}

StatusOr<std::optional<double>> RunOutput::bestEvalLoss() const {
  StatusOr<std::string> mine = std::string();
  if (ranks_.isFirst()) {
    const StatusOr<std::vector<CheckpointEntry>> entries = readCheckpointEntries(saveFolder_);
    std::optional<double> least;
    if (entries.isOk())
      for (const CheckpointEntry &entry : *entries)
        if (entry.evalLoss && entry.run == run_ && (!least || *entry.evalLoss < *least))
          least = entry.evalLoss;
    mine = least ? fmt::format("{}", *least) : std::string();
  }
  ZTC_ASSIGN_OR_RETURN(const std::string text, fromFirstRank(&ranks_.control, "best evaluation", mine));
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    return std::optional<double>();
  return std::optional(value);
}

Status RunOutput::prepare(const plan::Plan &plan, const std::optional<FoundCheckpoint> &resumed, uint64_t steps) {
  resumed_ = resumed;
  ZTC_RETURN_IF_ERROR(chooseRun());
  if (options_.isTrial() || !options_.trains())
    return Status::ok();
  const bool isNowhere = options_.save.empty() && options_.exportFolder.empty();
  savesAtEnd_ = !options_.save.empty() || (options_.stopAfter && !options_.noSave);
  const bool exportsByDefault = isNowhere && !options_.noSave && !options_.stopAfter;
  isDefaultFolder_ = options_.save.empty() && !options_.noSave;
  std::string fallback;
  if (isDefaultFolder_) {
    StatusOr<std::string> chosen = std::string();
    if (ranks_.isFirst())
      chosen = chooseDefaultFolder();
    ZTC_ASSIGN_OR_RETURN(fallback, fromFirstRank(&ranks_.control, "default folder", chosen));
  }
  if (!options_.noSave)
    saveFolder_ = isDefaultFolder_ ? fallback : options_.save;
  export_.folder = exportsByDefault ? fallback : options_.exportFolder;
  export_.companions = {.hfConfig = options_.hfConfig,
                        .weights = options_.weights,
                        .checkpoint = resumed_ ? resumed_->path : std::string()};
  export_.shardBytes = options_.shardBytes.value_or(kDefaultShardBytes);
  ZTC_ASSIGN_OR_RETURN(export_.type, parseExportType(options_.exportDtype));
  if (!options_.merge.empty() && !plan.adapter_config().empty())
    export_.merge = options_.merge == "base" ? MergeInto::Original : MergeInto::Trained;
  auto companions = findCompanions(plan, export_.companions, plan::F32);
  ZTC_RETURN_IF_ERROR(agree(&ranks_.control, "files beside the weights", companions.status()));
  companions_ = std::move(*companions);
  if (!export_.folder.empty()) {
    if (!options_.overwrite)
      ZTC_RETURN_IF_ERROR(agree(&ranks_.control, "export folder unused",
                                ranks_.isFirst() ? checkExportFolder(export_.folder) : Status::ok()));
    auto types = typesOfWeights(plan, options_.weights);
    ZTC_RETURN_IF_ERROR(agree(&ranks_.control, "types of the weights", types.status().withContext("--weights")));
    export_.weightTypes = std::move(*types);
    ZTC_RETURN_IF_ERROR(claim(export_.folder));
    ZTC_RETURN_IF_ERROR(prepareExport(plan, export_, &ranks_.control));
  }
  if (savesAtEnd_) {
    ZTC_RETURN_IF_ERROR(claim(saveFolder_)); // before it is looked at: another run may be at work there
    ZTC_RETURN_IF_ERROR(
        agree(&ranks_.control, "save folder unused", ranks_.isFirst() ? checkSaveFolder() : Status::ok()));
    const bool isAnyStep = savePeriodSeconds() || options_.keepBest;
    const SavePlan wanted{.keep = options_.keep.value_or(0),
                          .saves = isAnyStep            ? steps + 1
                                   : options_.saveEvery ? steps / *options_.saveEvery + 1
                                                        : 1};
    ZTC_RETURN_IF_ERROR(prepareCheckpoints(plan, saveFolder_, &ranks_.control, wanted));
  }
  return Status::ok();
}

/// What the first line of a log says about its run; nothing where the file is not a log.
static std::optional<std::string> runOfLog(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto json = parseJson<nlohmann::json>(line);
  if (!json.is_object() || !json.contains("plan_sha256"))
    return std::nullopt;
  const auto run = json.find("run");
  return run != json.end() && run->is_string() ? run->get<std::string>() : std::string();
}

Status RunOutput::openLog(JsonLog &log) {
  const auto open = [&]() -> Status {
    if (options_.logJson.empty() || !ranks_.isFirst())
      return Status::ok();
    namespace fs = std::filesystem;
    std::error_code error;
    // A pipe or a device keeps nothing.
    const bool isUsed = fs::is_regular_file(options_.logJson, error) && fs::file_size(options_.logJson, error) > 0;
    const bool isSame = isUsed && resumed_ && runOfLog(options_.logJson) == resumed_->state.run;
    if (isUsed && !isSame && !options_.overwrite)
      return failedPrecondition(fmt::format(
          "--log-json: '{}' is {}: give this run a file of its own, or replace the "
          "other one (--overwrite)",
          options_.logJson, runOfLog(options_.logJson) ? "the log of another run" : "there already, and not a log"));
    return log.open(options_.logJson, isSame || !isUsed);
  };
  return agree(&ranks_.control, "log", open());
}

} // namespace ztc
