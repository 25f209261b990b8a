// What a run leaves behind: its checkpoints, its model, its log. Where they go is decided, checked against what older
// runs have left there, and claimed before the first step: nothing of another run is overwritten or mixed with this
// one.
#pragma once
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/OutputFolder.h"
#include "runtime/Core/Status.h"
#include "runtime/Ranks/RankContext.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/Options.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

class RunOutput {
public:
  /// References must outlive the object.
  RunOutput(const RunOptions &options, RankContext ranks) : options_(options), ranks_(ranks) {}

  /// All ranks: gives the run its id, chooses its folders and refuses those that another run has used, unless
  /// --overwrite. `steps`: that this run will do, as far as it is known.
  Status prepare(const plan::Plan &plan, const std::optional<FoundCheckpoint> &resumed, uint64_t steps);
  /// All ranks. A log of another run is refused; one of this run, which is resumed, goes on.
  Status openLog(JsonLog &log);
  /// All ranks, before a checkpoint is written: the folder is this run's until it ends.
  Status claimSaveFolder();
  /// All ranks: a further folder is this run's, until it ends or release().
  Status claim(const std::string &folder);
  void release(const std::string &folder);
  /// Checkpoints go there from now on.
  void saveInto(const std::string &folder);

  /// The same in log, checkpoints and export, and after a resume.
  const std::string &run() const { return run_; }
  /// Of checkpoints; empty where none may be written.
  const std::string &saveFolder() const { return saveFolder_; }
  /// A run that goes to its end leaves a checkpoint too.
  bool savesAtEnd() const { return savesAtEnd_; }
  /// Seconds between two checkpoints where no option counts steps.
  std::optional<double> savePeriodSeconds() const;
  SaveOptions saveOptions(SaveKind kind) const;
  /// All ranks: the least evaluation loss of this run's checkpoints that are there.
  StatusOr<std::optional<double>> bestEvalLoss() const;
  /// Its folder is empty where nothing is exported.
  ExportOptions &exported() { return export_; }

private:
  Status chooseRun();
  Status checkSaveFolder() const;
  StatusOr<std::string> chooseDefaultFolder() const;
  /// At rank 0: what of another run is among the checkpoints of `folder`, in words; empty where nothing is.
  StatusOr<std::string> foreignCheckpoint(const std::string &folder) const;
  bool isResumed() const { return resumed_.has_value(); }

  const RunOptions &options_;
  RankContext ranks_;
  std::optional<FoundCheckpoint> resumed_;
  std::string run_;
  std::vector<OutputFolder> folders_; ///< that this run writes into; rank 0's
  std::string saveFolder_;
  bool isDefaultFolder_ = false; ///< nobody named saveFolder_
  bool savesAtEnd_ = false;
  CompanionFiles companions_; ///< of checkpoints
  ExportOptions export_;
};

} // namespace ztc
