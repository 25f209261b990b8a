// Models for others to read: a Hugging Face folder, and gradients for comparison.
#pragma once
#include "runtime/Checkpoint/CompanionFiles.h"
#include "runtime/Checkpoint/Merge.h"
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ztc {

/// Where Hugging Face's writers of version 4 begin a new shard; later ones do at 50 GB.
inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;

struct ExportOptions {
  std::string folder;
  /// F32, BF16 or F16 for all tensors, rounded to nearest even. Without: each has the type that its weights had, and
  /// what the plan computes in where they are not known.
  std::optional<plan::DataType> type;
  CompanionSource companions = {};
  /// Of --weights, by parameter name; the plan knows those of its own sources.
  std::map<std::string, plan::DataType> weightTypes;
  uint64_t shardBytes = kDefaultShardBytes;
  /// Of a plan that trains an adapter: the whole model with the adapter in it, instead of the adapter alone. `frozen`
  /// is what the run loaded.
  std::optional<MergeInto> merge = {};
  WeightOptions frozen = {};
  std::string record = {}; ///< text of ztc_run.json: which run the model is of; empty: no such file
};

/// "fp32", "bf16", "fp16" to a type, empty to none; InvalidArgument on anything else.
StatusOr<std::optional<plan::DataType>> parseExportType(const std::string &name);

/// The types of the plan's parameters in `weights`, a folder or file; those that it lacks are left out.
StatusOr<std::map<std::string, plan::DataType>> typesOfWeights(const plan::Plan &plan, const std::string &weights);

/// Before a run: the folder can be written, the model fits the free space, --hf-config has a config.json, all ranks see
/// the folder.
Status prepareExport(const plan::Plan &plan, const ExportOptions &options, ControlChannel *control = nullptr);

/// Writes model.safetensors (or shards with an index), config.json, and the files of tokenizer and generation into the
/// folder. These come from --hf-config, else from the folder of --weights, else from the folder that the plan was
/// compiled with. Tensors of the checkpoint that the plan does not train (a vision tower, buffers) go along as they
/// are, in shards of their own. Files that the export does not own stay; on failure the folder keeps its old content.
Status exportModel(const StateContext &context, const ExportOptions &options);

/// What an export holds, for the screen: "bf16, 3 shards; config.json, tokenizer.json of FOLDER"; it says what a reader
/// of the folder will miss.
std::string describeExport(const plan::Plan &plan, const ExportOptions &options);

/// Writes the gradient slots (of each rank the range it owns, which holds the sum over ranks) as f32 under the
/// parameters' names (tied ones once), each value times `factor`. `path` keeps its old content on failure.
Status dumpGradients(const StateContext &context, const std::string &path, float factor);

} // namespace ztc
