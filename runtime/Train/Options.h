// Everything a run can be asked for: what ztc-run's command line fills in.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Train/Schedule.h"
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ztc {

/// An option that has a value only where the user gave it, so that one which no run could see is found.
struct RunOptions {
  std::string plan;
  std::set<std::string> given; ///< options that the command line or --config has, as "--lr"; empty: nobody asked

  // Where it runs.
  std::optional<uint64_t> gpus;
  std::string device; ///< empty (choose), cpu, host, cuda
  std::optional<uint64_t> ranks;
  std::optional<uint64_t> threads; ///< worker threads per rank; default: cores / ranks
  std::string instructionSet;      ///< the widest that the processor's cores may use; empty: the best
  std::optional<uint64_t> nodes;
  std::optional<uint64_t> nodeRank;
  std::string rendezvous;
  double timeoutSeconds = 300;
  std::string disk; ///< folder of the file in which a plan keeps slots; empty: the one that it was compiled with

  // From the environment.
  double tuneSeconds = 20;              ///< that measuring algorithms of GPU libraries may take; 0: none is measured
  std::string cacheFolder;              ///< of this user, for what was measured; empty: nothing is kept
  std::string diskEngine;               ///< io_uring or threads: what carries transfers of --disk; empty: chosen
  std::string temporaryFolder = "/tmp"; ///< where a model goes that no other folder takes

  // What it learns from.
  std::vector<std::string> data;
  std::string tokenizer;              ///< empty (token files), bytes, or a folder with a tokenizer.json
  std::optional<uint64_t> tokenBytes; ///< of token files that do not say it
  /// Data files up to this size are read through before the first step.
  uint64_t scanBytes = uint64_t(256) << 20;
  bool shuffle = false;
  bool pack = false;                   ///< the plan must be one of packed rows
  std::optional<uint64_t> documentEnd; ///< token that ends a document, where the files do not say where they end
  std::string longDocuments; ///< cut or drop: what of packed rows happens to a document longer than a row; empty: cut
  std::string weights;
  std::string adapter; ///< PEFT folder that an adapter begins with
  std::string init;    ///< empty or normal:STD

  // How it learns.
  std::optional<uint64_t> steps;
  std::optional<double> epochs;
  std::optional<uint64_t> accumulate; ///< M; default 1, or what keeps the global batch of --resume
  double learningRate = 3e-4;
  ScheduleKind schedule = ScheduleKind::Cosine;
  uint64_t warmup = 0;
  std::optional<double> warmupShare; ///< of the run's steps, in place of `warmup`
  std::optional<double> minLrRatio;  ///< default 0.1
  OptimizerSettings optimizer;
  std::optional<double> lossScale;  ///< initial, fp16 only
  std::optional<double> skipSpikes; ///< deviations over the mean norm from which on an update is dropped
  std::optional<uint64_t> seed;     ///< default 0, or that of --resume
  std::optional<uint64_t> stopAfter;

  // What it says.
  std::vector<std::string> evalData; ///< FILE or NAME=FILE, see evaluationFiles()
  std::optional<uint64_t> evalEvery;
  std::string evalChoices;                ///< file of questions with choices
  bool evalOnly = false;                  ///< evaluates, and that is all
  std::optional<uint64_t> patience;       ///< evaluations in a row that may pass without a better one
  std::optional<uint64_t> sampleEvery;    ///< steps between samples of text
  std::vector<std::string> samplePrompts; ///< what each of them goes on from
  std::optional<uint64_t> sampleTokens;   ///< default kDefaultSampleTokens
  std::string logJson;
  std::string tensorboard; ///< folder of event files
  std::optional<uint64_t> logEvery;
  std::string dumpGradients;
  bool deterministic = true; ///< attention's gradient on GPUs has the same bits each time
  bool poison = false;       ///< what no step may read any more is not a number
  std::string profile;       ///< empty, kernels or steps
  std::string trace;         ///< file of the timeline

  // What it leaves.
  std::string save;
  std::optional<uint64_t> saveEvery;
  std::optional<double> savePeriodSeconds; ///< default kDefaultSavePeriodSeconds, none beside saveEvery
  std::optional<uint64_t> keep;
  bool keepBest = false;
  std::string keepBestOf; ///< name of the evaluation data that decides what is the best; empty: the first
  bool overwrite = false; ///< what another run has left may be replaced
  std::string resume;
  std::string exportFolder;
  std::string exportDtype;            ///< empty (as the weights were), fp32, bf16, fp16
  std::string merge;                  ///< "", "trained" or "base": an adapter goes into the model's weights
  std::optional<uint64_t> shardBytes; ///< where the export begins a new file
  std::string hfConfig;
  bool noSave = false;
  std::optional<uint64_t> restarts; ///< how often a run that has lost a rank is started again
  uint32_t restartsDone = 0;        ///< by the launcher, so far

  // Text instead of training.
  std::optional<uint64_t> generate;
  std::optional<std::string> prompt;
  std::string promptFile;            ///< --prompts: several instead of one, a line each
  std::optional<double> temperature; ///< default 0: the likeliest token
  std::optional<uint64_t> topK;
  std::optional<double> topP;

  bool trains() const { return !generate && !evalOnly; }
  /// The tokenizer is that of a folder.
  bool hasTokenizerFolder() const { return !tokenizer.empty() && tokenizer != "bytes"; }
  /// Without data a run is a trial on random tokens: nothing is saved.
  bool isTrial() const { return trains() && data.empty(); }
};

/// Steps of a trial run where --steps does not say otherwise.
inline constexpr uint64_t kTrialSteps = 20;
/// Between checkpoints of a run with --save that does not say when: what a kill may cost.
inline constexpr double kDefaultSavePeriodSeconds = 1800;
inline constexpr double kDefaultMinLrRatio = 0.1;
inline constexpr uint64_t kDefaultSampleTokens = 64;

/// Steps of linear warm-up in a run of `steps`.
uint64_t warmupSteps(const RunOptions &options, uint64_t steps);

/// Standard deviation of --init=normal:STD. InvalidArgument on anything else.
StatusOr<double> parseInit(const std::string &init);

/// InvalidArgument (exit 2) where options contradict each other, or ask for what the run would not do.
Status checkOptions(const RunOptions &options);
/// The name that the plan was compiled with as --optimizer.
std::string optimizerName(const plan::Plan &plan);
/// InvalidArgument where a run that trains asks for what this plan's kind of update cannot do: where buckets are
/// updated in the backward, several micro-steps or what takes the norm of all gradients before the update; else a norm
/// of each bucket.
Status checkUpdateTime(const RunOptions &options, const plan::Plan &plan);

/// How a run trains a model: the defaults of rate, decay and warm-up follow it.
enum class Method {
  Fresh,   ///< the whole model, from random weights
  Loaded,  ///< the whole model, from weights that it has
  Adapter, ///< low-rank adapters beside a frozen model
};
Method methodOf(const RunOptions &options, const plan::Plan &plan);

/// What a run does where the command line does not say it. `warmupShare`: of its steps.
struct MethodDefaults {
  const char *name; ///< "adapters beside a frozen model"
  double learningRate, weightDecay, warmupShare;
};
const MethodDefaults &defaultsOf(Method method);

/// The options with the defaults of the plan's method and optimizer where the command line says nothing.
RunOptions withDefaults(RunOptions options, const plan::Plan &plan);
/// Of --lr, --weight-decay and --warmup those that the command line does not give become those of the run that is gone
/// on with: its settings, see learningSettings(). Where nobody was asked (`given` is empty) nothing changes.
void keepRates(RunOptions &options, const std::map<std::string, std::string> &settings);

/// A sentence for each option that this run of `plan` does not look at, and that does no harm: notes, not errors.
std::vector<std::string> unusedOptions(const RunOptions &options, const plan::Plan &plan);
/// Whether the run is to be on GPUs: it is where the command line says so.
bool wantsGpus(const RunOptions &options);

/// The folder that is used where neither --save nor --export names one: <plan without .bin>-out.
std::string defaultOutputFolder(const std::string &plan);

} // namespace ztc
