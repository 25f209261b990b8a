// A run while it is under way: what its stages share. Only runPlan() makes one.
#pragma once
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CheckpointWriter.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Train/Choices.h"
#include "runtime/Train/DataSetRows.h"
#include "runtime/Train/EvaluationFiles.h"
#include "runtime/Train/EventFile.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/Progress.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/RunHeader.h"
#include "runtime/Train/RunOutput.h"
#include "runtime/Train/RunSummary.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/TextRun.h"
#include "runtime/Train/TrainingLoop.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// The state of one run; each member function is a stage.
class RunStages {
public:
  RunStages(const RunOptions &options, const RunScreen &screen, RankContext ranks)
      : options_(options), ranks_(ranks), control_(ranks.control),
        progress_(ranks.isFirst() ? screen.out : nullptr, screen.live), screen_(screen), output_(options, ranks) {}

  StatusOr<RunEnd> generate(LoadedPlan loaded, std::unique_ptr<Device> device);
  StatusOr<RunEnd> train(LoadedPlan loaded, std::unique_ptr<Device> device);
  StatusOr<RunEnd> evaluate(LoadedPlan loaded, std::unique_ptr<Device> device);

private:
  Status findResume();
  Status chooseBatch(const plan::Plan &plan);
  StatusOr<std::unique_ptr<DataSet>> openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                              bool shuffle);
  Status openAllData(const plan::Plan &plan);
  Status openHeldOut(const plan::Plan &plan);
  /// What no row that the run computes goes beyond.
  DocumentBounds documentBounds(const plan::Plan &plan) const;
  /// The rows of what openHeldOut() has opened.
  std::vector<EvaluationSet> evaluationSets();
  /// All ranks, after a batch of an evaluation: shows how far it is; false where a signal ends it.
  StatusOr<bool> goesOnEvaluating(const std::string &what, uint64_t done, uint64_t all);
  /// False where a signal ended it.
  StatusOr<bool> evaluateSets();
  /// The same for --eval-choices.
  StatusOr<bool> evaluateChoices();
  /// The sum of the logarithms of the probabilities of each choice's tokens; of fewer where a signal ended it.
  StatusOr<std::vector<double>> sumsOfChoices();
  LoopSettings loopSettings() const;
  Status prepareOutput(const plan::Plan &plan);
  Status openSession(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape, double tuneSeconds);
  Status loadResumed();
  Status loadModel();
  void introduce();
  std::map<std::string, std::string> environment() const;
  LossScale firstLossScale() const;
  /// With the norms of the checkpoint that is resumed.
  SpikeGuard firstGuard() const;
  /// Gives the runner the absolute maxima of the checkpoint that is resumed.
  Status restoreFp8Maxima();
  /// Begins to write a checkpoint into a folder that is claimed; none is on its way.
  Status beginSave(const LoopPosition &position, SaveKind kind = SaveKind::Good);
  /// Writes the weights of a run that has diverged, which may be broken: where no `--keep` counts them and no
  /// `--resume` takes them.
  Status saveDiverged(const LoopPosition &position);
  /// For a second SIGINT before a checkpoint is written: the one that is resumed, or that there is none.
  void noteFirstCheckpoint() const;
  /// Waits for the one on its way, if there is one.
  Status awaitSave();
  /// The same between two steps: a full disk costs this checkpoint, not the run.
  Status finishSave();
  /// A save that failed between two steps: said, and no end of the run.
  Status goOnAfter(const Status &status);
  /// Writes a checkpoint, unless that of this step is there.
  Status save(const LoopPosition &position);
  LoopHooks loopHooks();
  /// Before the first step: what --sample-prompt becomes, so that nothing is wrong with it later.
  Status prepareSamples();
  Status sample(const LoopPosition &position);
  Status exportTo(const ExportOptions &options);
  Status finish(LoopEnd end, const LoopPosition &position);
  /// The end of a run whose state no place of its own took, for `failed`: another one does, or it waits for room.
  /// Returns `failed`, with where the state is.
  Status rescueState(const Status &failed, const LoopPosition &position);
  void summarize(const LoopTotals &totals);
  /// Rows that cannot be read end a run, but do not cost what it has learned. Returns `error`, with where that is.
  Status saveBeforeBadRows(const Status &error, const LoopPosition &position);

  RunOptions options_; ///< of a resumed run with its rates, see keepRates()
  RankContext ranks_;
  ControlChannel &control_;
  Progress progress_; ///< silent on ranks other than the first
  RunScreen screen_;
  std::unique_ptr<Session> session_;
  StepRunner *runner_ = nullptr; ///< while the run trains
  std::optional<FoundCheckpoint> resumed_;
  std::string baseModel_; ///< of an adapter: place and checksum of the model that it is beside
  std::shared_ptr<const TokenizerFolder> tokenizer_; ///< null without --tokenizer=DIR
  std::unique_ptr<DataSet> data_;                    ///< null in a trial
  HeldOutData heldOut_;
  std::vector<DataSetRows> heldOutRows_;
  std::vector<Question> questions_;    ///< of --eval-choices
  std::optional<TextMaker> textMaker_; ///< of samples
  std::vector<Prompt> samplePrompts_;
  std::unique_ptr<NextTokenModel> textModel_; ///< of samples; goes before the session
  RunOutput output_;
  JsonLog log_;
  EventFile events_;
  RunSummary summary_;
  double began_ = steadySeconds();
  RunFacts facts_;
  uint64_t accumulate_ = 1;
  std::optional<std::pair<uint64_t, std::string>> saved_; ///< step and path of the last checkpoint
  std::string diverged_;                                  ///< where the weights of a run that diverged are
  uint64_t savingStep_ = 0;                               ///< of the one on its way
  std::optional<CheckpointWriter> writer_;                ///< goes before the session
};

} // namespace ztc
