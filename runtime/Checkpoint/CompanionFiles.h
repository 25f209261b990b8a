// What a Hugging Face folder has beside its weights: config.json, generation config, tokenizer, chat template.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// The option of a plan that names the folder with the model's config.json, an absolute path.
inline constexpr const char *kModelFolder = "model-folder";

/// Where a run's files beside the weights come from.
struct CompanionSource {
  std::string hfConfig; ///< --hf-config: a folder with config.json
  std::string weights;  ///< --weights: a folder or a file
  /// That a run goes on from: it has those of the run's beginning.
  std::string checkpoint = {};
};

/// Files that make a folder of weights one that transformers loads.
struct CompanionFiles {
  std::string config;                     ///< text of config.json; empty where none is known
  std::string configName = "config.json"; ///< of an adapter: adapter_config.json
  std::string folder;                     ///< where the others are; empty where none is known
  std::vector<std::string> names;         ///< of those
  bool hasTokenizer() const;
};

/// From --hf-config, else from the folder of --weights, else from the checkpoint that is resumed, else from what the
/// plan was compiled with. `type`: what
/// config.json shall say that the weights are. DataLoss where a config.json is not one.
/// Of a plan that trains an adapter: its configuration, and of the others those of the tokenizer.
StatusOr<CompanionFiles> findCompanions(const plan::Plan &plan, const CompanionSource &source, plan::DataType type);

/// The whole content of the file at `from`, through `staging`.
Status copyFile(const std::string &from, const File &to, std::span<std::byte> staging);

} // namespace ztc
