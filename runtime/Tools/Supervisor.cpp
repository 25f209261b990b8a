#include "runtime/Tools/Supervisor.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include "runtime/Ranks/RestartOrder.h"
#include "runtime/Train/Signals.h"
#include <cstdlib>
#include <fmt/format.h>
#include <set>

namespace ztc {

Status checkRestarts(const RunOptions &options, const RankIdentity *rank) {
  if (!options.restarts)
    return Status::ok();
  if (rank && rank->source == "ztc-run")
    return Status::ok();
  if (rank && !rank->source.empty())
    return invalidArgument(fmt::format("--restarts: {} has started the ranks, so it must start them again; give that "
                                       "to {}{} and --resume to ztc-run",
                                       rank->source, rank->source,
                                       rank->source == "torchrun" ? " (--max-restarts)"
                                       : rank->source == "Slurm"  ? " (--requeue)"
                                                                  : ""));
  if (options.nodes.value_or(1) > 1)
    return invalidArgument("--restarts: the ranks of the other hosts are started there; a run on several hosts is "
                           "started again on all of them, with --resume");
  return Status::ok();
}

namespace {

class Supervisor {
public:
  Supervisor(const RunOptions &options, const plan::Plan &plan, const LaunchOrder &order,
             const std::vector<std::string> &arguments)
      : options_(options), plan_(plan), order_(order), arguments_(arguments) {}

  StatusOr<int> run() {
    remember();
    for (uint64_t restarts = 0;; ++restarts) {
      order_.restarts = uint32_t(restarts);
      ZTC_ASSIGN_OR_RETURN(const LaunchEnd end, launchRanks(order_, arguments_));
      if (!end.hasLostRank || stopSignal() != 0 || end.wasStopped)
        return end.exitStatus;
      ZTC_ASSIGN_OR_RETURN(const std::optional<TrainerState> newest, newestState());
      if (restarts == *options_.restarts) {
        giveUp(newest, fmt::format("--restarts={} are used up", *options_.restarts));
        return end.exitStatus;
      }
      if (!goOn(newest, end.lostRank)) {
        giveUp(newest, "no smaller number of ranks divides the global batch");
        return end.exitStatus;
      }
      print(stderr, "ztc-run: rank {} is lost: restart {} of {}, on {} rank{} {}, {}\n", end.lostRank, restarts + 1,
            *options_.restarts, order_.world, order_.world == 1 ? "" : "s", isFewer_ ? "now" : "again",
            newest ? fmt::format("from step {}", newest->step) : "from the start: there is no checkpoint yet");
    }
  }

private:
  /// What is there before the run: none of it is the run's own.
  void remember() {
    if (auto entries = readCheckpointEntries(options_.save); entries.isOk())
      for (const CheckpointEntry &entry : *entries)
        runsBefore_.insert(entry.run);
    const auto hasContent = [](const std::string &path) {
      const StatusOr<std::vector<std::string>> names = listFolder(path);
      return pathExists(path) && !(names.isOk() && names->empty());
    };
    for (const std::string &path : {options_.save, options_.exportFolder, options_.logJson, options_.tensorboard})
      hadContent_ |= !path.empty() && hasContent(path);
  }

  /// Of the newest checkpoint of this run, as far as its trainer.json tells.
  StatusOr<std::optional<TrainerState>> newestState() const {
    ZTC_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, readCheckpointEntries(options_.save));
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if (options_.resume.empty() && runsBefore_.contains(entry->run))
        continue;
      const std::string path = options_.save + "/" + entry->name + "/trainer.json";
      const StatusOr<std::string> text = readWholeFile(path);
      if (!text.isOk())
        continue;
      if (StatusOr<TrainerState> state = parseTrainerState(*text, path); state.isOk())
        return std::optional(std::move(*state));
    }
    return std::optional<TrainerState>();
  }

  /// Prepares the next start; false where there is not a number of ranks for it.
  bool goOn(const std::optional<TrainerState> &newest, uint32_t lost) {
    const uint64_t reached = newest ? newest->step : 0;
    const bool isStuck = hasRestarted_ && reached <= startedAt_;
    hasRestarted_ = true;
    startedAt_ = reached;
    if (newest) {
      arguments_ = withOption(arguments_, "--resume", options_.save);
    } else if (!hadContent_ && !options_.overwrite && !overwrites_) { // what is there now is this run's own
      arguments_.insert(arguments_.begin() + 1, "--overwrite");
      overwrites_ = true;
    }
    if (!isStuck)
      return true;
    const uint64_t batch = plan_.model().batch();
    const uint64_t rows = newest ? newest->globalBatch : order_.world * options_.accumulate.value_or(1) * batch;
    const uint64_t fewer = fewerRanks(order_.world, rows, batch);
    if (fewer == 0)
      return false;
    if (wantsGpus(options_)) {
      const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
      setenv("CUDA_VISIBLE_DEVICES", devicesWithout(visible ? visible : "", order_.localWorld, lost).c_str(), 1);
    }
    arguments_ = withOption(arguments_, wantsGpus(options_) ? "--gpus" : "--ranks", std::to_string(fewer));
    arguments_ = withOption(arguments_, "--accumulate", std::to_string(rows / (fewer * batch)));
    order_.world = order_.localWorld = uint32_t(fewer);
    isFewer_ = true;
    return true;
  }

  void giveUp(const std::optional<TrainerState> &newest, const std::string &why) const {
    if (newest)
      print(stderr, "ztc-run: {}; the newest checkpoint is of step {}; go on with: {}\n", why, newest->step,
            printable(commandLine(withOption(arguments_, "--resume", options_.save))));
    else
      print(stderr, "ztc-run: {}; no checkpoint was written yet\n", why);
  }

  const RunOptions &options_;
  const plan::Plan &plan_;
  LaunchOrder order_;
  std::vector<std::string> arguments_;
  std::set<std::string> runsBefore_; ///< that --save has checkpoints of
  bool hadContent_ = false, overwrites_ = false;
  bool hasRestarted_ = false, isFewer_ = false;
  uint64_t startedAt_ = 0; ///< the step at which the last start began
};

} // namespace

StatusOr<int> superviseRanks(const RunOptions &options, const plan::Plan &plan, const LaunchOrder &order,
                             const std::vector<std::string> &arguments) {
  return Supervisor(options, plan, order, arguments).run();
}

} // namespace ztc
