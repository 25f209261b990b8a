// The steps of a run: batches in, updates, evaluations, checkpoints, log lines, until done, told to stop or diverged.
#pragma once
#include "runtime/Checkpoint/BestEvaluation.h"
#include "runtime/Core/Status.h"
#include "runtime/Ranks/RankContext.h"
#include "runtime/Train/Evaluation.h"
#include "runtime/Train/EventFile.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/LossScale.h"
#include "runtime/Train/Progress.h"
#include "runtime/Train/RowSource.h"
#include "runtime/Train/Schedule.h"
#include "runtime/Train/SpikeGuard.h"
#include "runtime/Train/StepRunner.h"
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// Where a loop stands.
struct LoopPosition {
  uint64_t step = 0;    ///< optimizer steps done, skipped ones too
  uint64_t updates = 0; ///< updates done: the t of schedule and Adam
  uint64_t row = 0;     ///< the next row of the sequence, over all epochs
  LossScale lossScale = {};
  std::optional<double> evalLoss = {}; ///< of an evaluation at this step, of the set that decides
  BestEvaluation bestEvaluation = {};  ///< of that set
  SpikeGuard guard = {};
  std::optional<float> gradientNorm = {}; ///< of the last update
};

struct LoopSettings {
  Schedule schedule; ///< schedule.steps is N
  OptimizerSettings optimizer;
  uint64_t accumulate = 1; ///< M
  uint64_t stopAt = 0;     ///< the loop ends when this many steps are done; N without --stop-after
  std::optional<uint64_t> saveEvery;
  std::optional<double> savePeriodSeconds; ///< by rank 0's clock
  bool savesBest = false;                  ///< after each evaluation that is the best so far
  std::optional<double> bestEvalLoss;      ///< so far, before the loop
  std::optional<uint64_t> evalEvery;
  size_t watchedSet = 0;            ///< the one of the evaluation's sets that decides what is the best
  std::optional<uint64_t> patience; ///< the loop ends after so many evaluations that were not the best
  std::optional<uint64_t> sampleEvery;
  uint64_t logEvery = 1;
  uint64_t rowsPerEpoch = 0; ///< 0: a trial, which has no epochs
  uint64_t seed = 0;         ///< of stochastic rounding
};

/// What a loop has done, and where its time went.
struct LoopTotals {
  uint64_t steps = 0;
  uint64_t tokens = 0;   ///< of all ranks
  uint64_t unpadded = 0; ///< of these the ones up to the last target of a row that counts
  double stepSeconds = 0;
  double evalSeconds = 0;
  double sampleSeconds = 0;
  double saveSeconds = 0;                      ///< that steps waited for checkpoints
  std::vector<BestEvaluation> bestEvaluations; ///< of this run's own, set by set
  bool lostPatience = false;                   ///< see LoopSettings::patience
  uint64_t spikes = 0;                         ///< steps whose update --skip-spikes dropped
};

/// What the loop asks of its surroundings. Each may be empty.
struct LoopHooks {
  /// Before the first update; `factor` takes the loss scale out of them. Again where that step was skipped.
  std::function<Status(float factor)> dumpGradients;
  /// Writes a checkpoint, or begins to: then the three that follow belong to it.
  std::function<Status(const LoopPosition &)> save;
  /// Writes what the model makes of prompts.
  std::function<Status(const LoopPosition &)> sample;
  std::function<void()> beforeUpdate; ///< waits until what is being saved has been read
  std::function<bool()> isSaved;      ///< one that was begun is written, or has failed: endSave() does not wait
  std::function<Status()> endSave;    ///< its outcome; all ranks ask at the same step
  std::function<void(double seconds)> afterStep; ///< an optimizer step is done; it took that long
  /// What a progress line says about the device: at the pace of all ranks together.
  std::function<std::string(double tokensPerSecond)> describeDevice;
  /// Points for curves; called at rank 0's pace of the log.
  std::function<void(uint64_t step, std::initializer_list<Scalar> scalars)> addScalars;
};

enum class LoopEnd {
  Finished,   ///< stopAt steps are done
  Signalled,  ///< a signal asked for a stop
  Diverged,   ///< the gradient norm was not finite: `position` is that before that step, and so are the weights unless
              ///< updates are in the backward: then some may be updated
  Overflowed, ///< fp16: too many steps in a row were skipped
};

/// One rank's training loop; all ranks run it with the same settings and take every decision together: they do the same
/// steps, evaluations and hooks, and end alike. Allocates nothing of size after its first step.
class TrainingLoop {
public:
  /// References must outlive the loop. `log` and `progress` are written where they are open: at rank 0.
  TrainingLoop(const plan::Plan &plan, StepRunner &runner, RowSource &rows, std::vector<EvaluationSet> evaluation,
               LoopSettings settings, LoopHooks hooks, RankContext ranks, JsonLog &log, Progress &progress);

  /// Goes on from `position` and keeps it up to date.
  StatusOr<LoopEnd> run(LoopPosition &position);
  /// True where run() failed at rows that cannot be read: on all ranks alike, with weights that are those of
  /// `position`.
  bool endedByRows() const { return endedByRows_; }
  /// The signal that ended run() with Signalled: the first one in rank order.
  int stoppedBy() const { return stopSignal_; }
  /// The last evaluation of this run, where there was one: mean over the counted targets.
  std::optional<double> evalLoss() const { return evalLoss_; }
  const LoopTotals &totals() const { return totals_; }

private:
  /// Seconds and tokens of the steps so far, smoothed for people.
  struct Pace {
    double stepSeconds = 0;
    uint64_t steps = 0;
    void add(double seconds);
  };
  struct StepReport {
    uint64_t step = 0;
    uint64_t targets = 0;  ///< that are counted
    uint64_t unpadded = 0; ///< see LoopTotals
    double weights = 0;    ///< N: their number, or where they have weights the sum of these
    double loss = 0;       ///< mean over them
    float gradientNorm = 0;
    double learningRate = 0;
    double seconds = 0;
    uint64_t sentBytes = 0; ///< the largest over ranks
    bool finite = true;
    bool skipped = false;
    bool isSpike = false; ///< its update was dropped for its gradient norm
    double normLimit = std::numeric_limits<double>::infinity();
    bool scaled = false;   ///< fp16
    bool savesNow = false; ///< rank 0 finds that it is time for a checkpoint
    bool endsSave = false; ///< all ranks have written the checkpoint that was on its way
    double lossScale = 1;
  };
  /// A step from its first micro-step until its loss has been judged.
  struct StepInFlight {
    LoopPosition start; ///< with what the steps before it were taken to lead to
    StepReport report;
    double began = 0;   ///< seconds of a steady clock
    uint64_t range = 0; ///< for a profiler
  };

  /// What the ranks tell each other of a global batch.
  struct BatchRecord {
    uint64_t targets = 0, unpadded = 0;
    LossWeightSum weights;
  };

  StatusOr<LoopEnd> runSteps(LoopPosition &position);
  /// Reads the batch that begins at `row` and sends its counts to the other ranks, who need it a step later.
  Status prepareBatch(uint64_t row);
  /// Makes the prepared batch the current one; N of all ranks, or the failure of the first rank that could not read its
  /// rows.
  StatusOr<BatchRecord> takeBatch();
  /// The micro-steps of the step that begins at `start`; `batch_` are its rows.
  StatusOr<StepInFlight> beginStep(const LoopPosition &start);
  Status runMicrosteps(StepInFlight &step);
  /// Its update, once all steps before it have been judged: they have led to `position`.
  Status updateStep(StepInFlight &step, const LoopPosition &position);
  /// Waits for what a step has given, and completes its report.
  Status awaitStep(StepInFlight &step);
  /// Judges a step whose update was executed: log, position, what is due after it. An end, or nothing: the run goes
  /// on.
  StatusOr<std::optional<LoopEnd>> finishStep(StepInFlight step, LoopPosition &position);
  /// Says that a step's update was dropped.
  void dropSpike(const StepReport &step, LoopPosition &position);
  /// To the next step; `updated`: this one changed the weights.
  void advance(LoopPosition &position, bool updated) const;
  /// Where `step` leads if nothing is wrong with it.
  LoopPosition expectedAfter(const StepInFlight &step) const;
  /// True where the micro-steps of the step after `step` may be executed before `step` is judged.
  bool mayOverlap(const StepInFlight &step) const;
  bool isDue(const std::optional<uint64_t> &every, uint64_t step) const { return every && step % *every == 0; }
  /// Of this rank so far.
  uint64_t sentBytes() const;
  /// Adds up what all ranks have of a step: losses in rank order.
  Status combine(float lossSum, StepReport &report);
  Status agreeOnStop();
  /// Whether the devices of all ranks are asynchronous: they run ahead together or not at all.
  Status agreeOnOverlap();
  /// Adapts the loss scale to a step that had targets, and says where it was skipped.
  void rescale(const StepReport &step, LoopPosition &position);
  Status evaluate(LoopPosition &position);
  Status sample(const LoopPosition &position);
  /// True where so many evaluations as --patience says were not the best.
  bool losesPatience(const LoopPosition &position);
  /// Whether the evaluation at `position` is the best so far, which it is remembered as.
  bool isBest(const LoopPosition &position);
  void report(const StepReport &report, bool last);
  void log(const StepReport &report);

  uint64_t batchRows_;
  uint64_t seq_;
  StepRunner &runner_;
  RowSource &rows_;
  LoopSettings settings_;
  LoopHooks hooks_;
  RankContext ranks_;
  JsonLog &log_;
  Progress &progress_;
  GlobalBatch batch_;
  GlobalBatch next_;
  bool isPrepared_ = false; ///< next_ is filled and its count is on its way
  Evaluation evaluation_;
  JsonObject line_;
  Pace pace_;
  LoopTotals totals_;
  std::optional<double> evalLoss_;
  std::optional<uint64_t> evaluatedAt_, sampledAt_;
  int stopSignal_ = 0;     ///< agreed by all ranks
  bool first_ = true;      ///< no step was updated yet
  bool overlaps_ = false;  ///< see agreeOnOverlap
  bool updatesInBackward_; ///< the micro-step is the whole step
  double lastSaved_ = 0;   ///< the last checkpoint was begun, in seconds of a steady clock
  double lastJudged_ = 0;  ///< when the last loss was there, in seconds of a steady clock
  bool endedByRows_ = false;
};

} // namespace ztc
