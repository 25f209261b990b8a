// Models for others to read: a Hugging Face folder, and gradients for comparison.
#pragma once
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <string>

namespace ztc {

struct ExportOptions {
  std::string folder;
  plan::DataType type = plan::F32; ///< F32, BF16 or F16, rounded to nearest even
  std::string hfConfig; ///< --hf-config: a folder with config.json, whose tokenizer files are copied too; else the
                        ///< plan's hf_config
};

/// "fp32", "bf16", "fp16" to a type; InvalidArgument on anything else. Empty: what the plan computes in.
StatusOr<plan::DataType> parseExportType(const std::string &name, const plan::Plan &plan);

/// Before a run: the folder can be written, the model fits the free space, --hf-config has a config.json, all ranks see
/// the folder.
Status prepareExport(const plan::Plan &plan, const ExportOptions &options, ControlChannel *control = nullptr);

/// Writes model.safetensors (or shards with an index above 5 GB) and config.json into the folder. Files that the export
/// does not own stay; on failure the folder keeps its old content.
Status exportModel(const StateContext &context, const ExportOptions &options);

/// Writes the gradient slots (of each rank the range it owns, which holds the sum over ranks) as f32 under the
/// parameters' names (tied ones once), each value times `factor`. `path` keeps its old content on failure.
Status dumpGradients(const StateContext &context, const std::string &path, float factor);

} // namespace ztc
