// Checkpoints: step-00000010/ with files of the model and of each state of the optimizer (of AdamW exp_avg,
// exp_avg_sq), trainer.json and manifest.json.
#pragma once
#include "runtime/Checkpoint/BestEvaluation.h"
#include "runtime/Checkpoint/CompanionFiles.h"
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/Status.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Format/AlgorithmChoices.h"
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// trainer.json: all of a run that is not a tensor.
struct TrainerState {
  uint64_t step = 0;        ///< optimizer steps done: the number in the folder's name and of the next step to log
  uint64_t adamCount = 0;   ///< updates that Adam has seen; below `step` where steps were skipped
  DataCursor cursor;        ///< the next row to read
  uint64_t globalBatch = 0; ///< rows per optimizer step, W * M * B
  uint64_t seed = 0;
  bool shuffle = false;
  double lossScale = 1;              ///< fp16
  uint64_t goodSteps = 0;            ///< since the scale last changed
  uint64_t skippedInARow = 0;        ///< fp16
  std::string run;                   ///< which run this is, the same in its log and export; empty: of an older ztc-run
  std::optional<double> evalLoss;    ///< of an evaluation after these steps
  BestEvaluation bestEvaluation;     ///< of the run so far
  std::vector<float> gradientNorms;  ///< of --skip-spikes: the last ones, oldest first
  uint64_t droppedInARow = 0;        ///< of --skip-spikes
  std::optional<float> gradientNorm; ///< of the last update: what --clip=previous goes on from
  std::map<std::string, float> fp8Maxima;      ///< of products in fp8 with delayed scaling: absolute maxima, by name
  std::map<std::string, std::string> settings; ///< by option: what decides how the run learns; a resume names changes
  std::map<std::string, std::string>
      environment;             ///< what bits depend on: versions, instruction set, threads; a resume names what differs
  AlgorithmChoices algorithms; ///< of the device's libraries; key empty: it had no choice
};

std::string printTrainerState(const TrainerState &state);
StatusOr<TrainerState> parseTrainerState(std::string_view json, const std::string &path);

/// "step-00000010".
std::string checkpointName(uint64_t step);
/// The step of such a name, or nothing.
std::optional<uint64_t> checkpointStep(const std::string &name);

/// Bytes of one checkpoint of this plan, all files together, nearly (the JSON files are estimated).
uint64_t checkpointBytes(const plan::Plan &plan);
/// What a run will ask of the folder of its checkpoints.
struct SavePlan {
  uint64_t keep = 0;  ///< of saveCheckpoint
  uint64_t saves = 1; ///< how often the run will save at most
};

/// Before a run: the folder exists or can be made, files can be written there, what the run adds to it fits the free
/// space, all ranks see it. A new checkpoint is written before an old one goes, so `keep` of them take the room of
/// keep + 1; where all are kept, room for one is asked.
Status prepareCheckpoints(const plan::Plan &plan, const std::string &folder, ControlChannel *control = nullptr,
                          const SavePlan &wanted = {});

/// What trainer.json says of a checkpoint without a look at its tensors.
struct CheckpointEntry {
  std::string name;
  uint64_t step = 0;
  std::string run;
  std::optional<double> evalLoss;
};
/// The checkpoints of a folder that can be read that far, oldest first; empty where there is no such folder. At one
/// rank.
StatusOr<std::vector<CheckpointEntry>> readCheckpointEntries(const std::string &folder);

/// What is saved: the state of a run that goes well, as step-N, or of one that has diverged, as diverged-step-N, which
/// --keep does not count and --resume does not take: its weights may be broken.
enum class SaveKind { Good, Diverged };

/// Which checkpoints of the folder stay once a new one is whole, and what lies in it beside the state.
struct SaveOptions {
  SaveKind kind = SaveKind::Good;
  uint64_t keep = 0;     ///< the newest of this run; 0: all
  bool keepBest = false; ///< and the one with the least evaluation loss
  /// --overwrite: those of other runs go, and those of steps that this run has left behind.
  bool replacesOthers = false;
  CompanionFiles companions = {}; ///< of a Hugging Face folder
};

/// Writes `folder`/step-N in one go: a temporary folder (no name like step-*), every rank its ranges, all files synced,
/// the manifest, the rename. On failure the temporary folder is gone and older checkpoints are as they were. Then
/// removes what `options` says of the checkpoints that have the run of `state`. Returns the checkpoint's path.
/// `hasRead`, where set, is called as soon as this rank's state may change again; after a failure it may never be.
StatusOr<std::string> saveCheckpoint(const StateContext &context, const TrainerState &state, const std::string &folder,
                                     const SaveOptions &options = {}, const std::function<void()> &hasRead = nullptr);

/// A checkpoint that was found whole.
struct FoundCheckpoint {
  std::string path;
  TrainerState state;
  std::vector<std::string> skipped; ///< one sentence for each newer one that is not whole
};

/// The newest whole checkpoint in `folder` (which may itself be a step-* folder): sizes and checksums agree with its
/// manifest. Rank 0 chooses, all ranks read their part of the files. NotFound where there is none, FailedPrecondition
/// where the folder has checkpoints of several runs.
StatusOr<FoundCheckpoint> findCheckpoint(const std::string &folder, std::span<std::byte> staging,
                                         ControlChannel *control = nullptr);

/// Fills parameters and moments from a checkpoint: what this rank's slots hold of them. What the plan has and the
/// checkpoint lacks, or has in another shape, is an error.
Status loadCheckpoint(const StateContext &context, const std::string &path);

} // namespace ztc
