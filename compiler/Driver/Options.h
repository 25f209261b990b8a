// What a compilation is asked for. Filled by ztc.cpp from the command line; nothing else reads flags.
#pragma once
#include "compiler/Analysis/OffloadChoice.h"
#include "compiler/Analysis/RecomputeChoice.h"
#include "compiler/Support/Formats.h"
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ztc::driver {

/// Options of `ztc compile` and `ztc memory` . Sizes are in bytes; 0 means "not given".
struct CompileOptions {
  std::string input;  ///< an ONNX file, a Hugging Face folder, or IR text where `from` is set
  std::string model;  ///< of IR text: what it was made of; else empty
  std::string output; ///< the plan file

  uint64_t batch = 0;                     ///< micro-batch per rank; 0: the graph's own, or 1
  bool choosesBatch = false;              ///< --batch=auto: the smallest micro-batch that is nearly the fastest
  uint64_t globalBatch = 0;               ///< rows of a step over all ranks and micro-steps; 0: as --accumulate says
  uint64_t seq = 0;                       ///< tokens per row; 0: the graph's own, or min(position limit, 2048)
  unsigned zero = 0;                      ///< ZeRO stage 0..3
  std::optional<unsigned> prefetch;       ///< ZeRO-3: buckets gathered ahead of their use; default 1
  bool earlyGathers = false;              ///< ZeRO-3: an update gathers what the next step needs first
  Keeping keepGathered = Keeping::Auto;   ///< ZeRO-3: over micro-steps and to the backward
  Keeping keepFp8Weights = Keeping::Auto; ///< of precision fp8: codes, over micro-steps and to the backward
  StoragePrecision precision = StoragePrecision::Bf16;
  bool tf32 = false;                             ///< products of fp32 factors round them to TF32 on GPUs
  std::string optimizer = "adamw";               ///< a name of compiler/Dialect/Graph/Optimizers.h
  AdjustLr adjustLrFn = AdjustLr::MatchRmsAdamw; ///< of muon
  StateFormat optimizerState = StateFormat::Fp32;
  MasterFormat masters = MasterFormat::Fp32; ///< of bf16 weights
  UpdateTime updateTime = UpdateTime::After; ///< of a bucket
  std::string precisionPolicy;               ///< JSON file with the layers that stay fp32
  std::vector<std::string>
      keptFp32; ///< what that file says: regular expressions over checkpoint names and module paths
  std::vector<std::string> keptBf16;                    ///< the same of precision fp8: layers whose products stay bf16
  CotangentFormat fp8Gradients = CotangentFormat::E5m2; ///< of precision fp8
  Fp8Scaling fp8Scaling = Fp8Scaling::Dynamic;          ///< of precision fp8
  std::string recompute = "auto";                       ///< none, auto, or a name of passes/Recompute/Policies.h
  RecomputeChoice recomputeChoice;                      ///< with auto: what the search chose
  uint64_t memoryBudget = 0;                            ///< per rank
  uint64_t memoryReserve = 0;                           ///< per rank, for what lies outside the arena
  uint64_t lossRows = 0; ///< rows of logits at a time on a GPU, at most; 0: as many as memory allows

  std::vector<unsigned> gpus{1}; ///< world sizes for the report; the budget holds for the first
  bool gpusGiven = false;       ///< whether `gpus` was asked for; if not, the budget holds for the usual ones of a node
  std::vector<unsigned> stages; ///< ZeRO stages for the report; empty: `zero`
  unsigned accumulate = 1;      ///< micro-steps per optimizer step, for the report
  unsigned threads = 0;         ///< host threads per rank, for the report; 0: this host's cores
  std::vector<std::string> targets{"host"};
  std::string gpuModel; ///< a name of compiler/Analysis/GpuModels.h whose rates price choices; empty: an H100's

  std::string saveOnnx;                ///< where the graph that was built from a folder is written
  std::string weights;                 ///< Hugging Face folder or safetensors file
  std::vector<std::string> inputRoles; ///< "ROLE=NAME": which input of the graph is what
  std::string paddingToken;            ///< embedding's row whose lookups get no gradient, or "none"; empty: as recorded
  std::string freezePattern;           ///< regular expression over checkpoint names: no gradient
  std::string noDecayPattern;          ///< further parameters without weight decay
  std::vector<std::string> rates;      ///< "REGEX=FACTOR": parameters with a learning rate of their own
  std::string adapter;                 ///< PEFT folder: low-rank adapters are trained, the model is not
  std::string lora;                    ///< "r=16,alpha=32,targets=all-linear": the same, of a new adapter
  FrozenFormat quantize = FrozenFormat::Plain; ///< how frozen weights of products are stored
  bool pack = false;                           ///< rows hold several documents, and attention stays within each
  bool generate = false;                       ///< a program that generates text with a key/value cache
  bool lossWeights = false;                    ///< each target's loss is multiplied by a number of the data

  std::vector<std::string> plugins;
  std::vector<std::string> patterns;    ///< "FILE[,before=PHASE|,after=PHASE|,after=loss][,keeps=changes|bits]"
  std::vector<std::string> mlirOptions; ///< "--mlir-timing" and the like, for MLIR itself
  std::vector<std::string> passOptions; ///< "PASS.OPTION=VALUE"
  std::vector<std::string> disabledPasses;
  std::string dumpFolder;      ///< one numbered file per phase
  std::string kernelCache;     ///< folder of machine code that earlier compilations made; empty: none
  std::string from, to;        ///< phase names: start from IR after `from`; stop after `to`
  std::string remarks;         ///< regular expression over the passes whose remarks are printed
  std::string remarksFile;     ///< YAML file for remarks
  bool verify = false;         ///< each pass is held to what it keeps, on a small form of the model
  bool explainPasses = false;  ///< what each phase and each pass of a plugin changed in memory, traffic and time
  bool printPipeline = false;  ///< the passes of each phase are printed, as ztc-opt takes them
  std::set<std::string> given; ///< options that the command line names, without dashes

  uint64_t hostMemory = 0; ///< per rank, in the host's memory, for what need not lie on the device
  std::string disk;        ///< folder of a file for the same; empty: none
  uint64_t diskMemory = 0; ///< per rank, in that file; 0: as much as is wanted
  UpdatePlace offloadUpdate = UpdatePlace::Auto; ///< of what lies in the host's memory
  OffloadChoice offload;                         ///< what lies there
  bool offloadChosen = false;                    ///< whether that was decided
  bool needsOffload = false;                     ///< a search has found that nothing fits with all on the device
};

/// Everything as "name=value", as it is kept in the plan for `ztc inspect` and `ztc diff`.
std::vector<std::pair<std::string, std::string>> describe(const CompileOptions &options);

} // namespace ztc::driver
