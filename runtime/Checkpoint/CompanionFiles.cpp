#include "runtime/Checkpoint/CompanionFiles.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/Json.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

using Json = nlohmann::ordered_json;

/// What a Hugging Face folder has beside weights and config.json. Files that are not there are not copied.
static constexpr const char *kCompanions[] = {"generation_config.json",
                                              "tokenizer.json",
                                              "tokenizer_config.json",
                                              "tokenizer.model",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "vocab.txt",
                                              "merges.txt",
                                              "spiece.model",
                                              "tekken.json",
                                              "chat_template.jinja",
                                              "chat_template.json",
                                              "preprocessor_config.json",
                                              "processor_config.json",
                                              "video_preprocessor_config.json"};

/// The folder that --weights stands for; empty where there is none.
static std::string weightsFolder(const CompanionSource &source) {
  if (source.weights.empty())
    return {};
  return isFolder(source.weights) ? source.weights : parentFolder(source.weights);
}

/// Where the files beside the weights come from; empty where no folder is known.
static std::string companionFolder(const plan::Plan &plan, const CompanionSource &source) {
  if (!source.hfConfig.empty())
    return source.hfConfig;
  if (const std::string folder = weightsFolder(source); !folder.empty() && pathExists(folder + "/config.json"))
    return folder;
  if (!source.checkpoint.empty() && pathExists(source.checkpoint + "/config.json"))
    return source.checkpoint;
  const auto compiled = plan.options().find(kModelFolder);
  return compiled != plan.options().end() ? compiled->second : std::string();
}

static std::vector<std::string> companions(const std::string &folder) {
  std::vector<std::string> names;
  if (folder.empty())
    return names;
  for (const char *name : kCompanions)
    if (pathExists(folder + "/" + name))
      names.emplace_back(name);
  // The classes of a model that transformers does not have itself.
  if (const StatusOr<std::vector<std::string>> present = listFolder(folder); present.isOk())
    for (const std::string &name : *present)
      for (const char *prefix : {"configuration_", "modeling_", "tokenization_"})
        if (name.starts_with(prefix) && name.ends_with(".py"))
          names.push_back(name);
  return names;
}

static const char *torchName(plan::DataType type) {
  return type == plan::BF16 ? "bfloat16" : type == plan::F16 ? "float16" : "float32";
}

/// The text of config.json, with the type of the weights in it; empty where there is none.
static StatusOr<std::string> configText(const plan::Plan &plan, const CompanionSource &source,
                                        plan::DataType weightType) {
  std::string text = plan.model().hf_config();
  std::string file;
  if (!source.hfConfig.empty())
    file = source.hfConfig + "/config.json";
  else
    for (const std::string &folder : {weightsFolder(source), source.checkpoint})
      if (file.empty() && !folder.empty() && pathExists(folder + "/config.json"))
        file = folder + "/config.json";
  if (!file.empty()) {
    auto read = readWholeFile(file);
    if (!read.isOk())
      return source.hfConfig.empty() ? read.status() : read.status().withContext("--hf-config");
    text = std::move(*read);
  }
  if (text.empty())
    return text;
  Json json = parseJson<Json>(text);
  if (!json.is_object())
    return dataLoss(fmt::format("{} is not a JSON object", file.empty() ? "the plan's config.json" : "'" + file + "'"));
  json.erase("quantization_config"); // what is written is whole
  const char *type = torchName(weightType);
  const auto setType = [&](Json &config) {
    bool isKnown = false;
    for (const char *key : {"dtype", "torch_dtype"}) // transformers 5 and 4
      if (config.contains(key)) {
        config[key] = type;
        isKnown = true;
      }
    return isKnown;
  };
  bool isKnown = setType(json);
  if (json.contains("text_config") && json["text_config"].is_object())
    isKnown |= setType(json["text_config"]);
  if (!isKnown)
    json["torch_dtype"] = type; // both versions read it
  const std::string changed = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return withPythonsNumbers(text) == text ? changed : withBareNumbers(changed);
}

bool CompanionFiles::hasTokenizer() const {
  return std::ranges::any_of(names, [](const std::string &name) {
    return name.starts_with("token") || name.starts_with("vocab") || name == "tekken.json" || name == "spiece.model";
  });
}

StatusOr<CompanionFiles> findCompanions(const plan::Plan &plan, const CompanionSource &source, plan::DataType type) {
  CompanionFiles files;
  ZTC_ASSIGN_OR_RETURN(files.config, configText(plan, source, type));
  files.folder = companionFolder(plan, source);
  files.names = companions(files.folder);
  if (trainsAdapter(plan)) {
    files.config = plan.adapter_config();
    files.configName = kAdapterConfigName;
    std::erase_if(files.names,
                  [](const std::string &name) { return name.ends_with("_config.json") && !name.starts_with("token"); });
  }
  return files;
}

Status copyFile(const std::string &from, const File &to, std::span<std::byte> staging) {
  ZTC_ASSIGN_OR_RETURN(const File source, File::open(from, File::Mode::Read));
  ZTC_ASSIGN_OR_RETURN(const uint64_t bytes, source.size());
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t piece = std::min<uint64_t>(staging.size(), bytes - at);
    ZTC_RETURN_IF_ERROR(source.readAt(at, staging.data(), piece));
    ZTC_RETURN_IF_ERROR(to.writeAt(at, staging.data(), piece));
    at += piece;
  }
  return Status::ok();
}

} // namespace ztc
