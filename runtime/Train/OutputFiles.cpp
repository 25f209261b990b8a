#include "runtime/Train/OutputFiles.h"
#include "runtime/Core/File.h"
#include "runtime/Train/EvaluationFiles.h"
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ztc {

namespace {

struct NamedPath {
  std::string_view option;
  std::string path;
};

/// Whether both lead to one file or folder, whatever they are called.
bool areSame(const std::string &one, const std::string &other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error) && !error;
}

/// What a folder of a model, an adapter or a tokenizer is read for; a log may lie beside it.
bool isOfModel(const std::string &path) {
  const std::string name = std::filesystem::path(path).filename();
  const std::set<std::string_view> known{"config.json", "generation_config.json", "adapter_config.json",
                                         "tokenizer.json", "tokenizer_config.json"};
  return known.contains(name) || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

std::vector<NamedPath> inputsOf(const RunOptions &options, const plan::Plan &plan) {
  std::vector<NamedPath> inputs{
      {"the plan", options.plan},        {"--weights", options.weights},          {"--adapter", options.adapter},
      {"--prompts", options.promptFile}, {"--eval-choices", options.evalChoices}, {"--hf-config", options.hfConfig}};
  if (options.hasTokenizerFolder())
    inputs.push_back({"--tokenizer", options.tokenizer});
  for (const std::string &file : options.data)
    inputs.push_back({"--data", file});
  for (const EvaluationFiles &set : evaluationFiles(options.evalData))
    for (const std::string &file : set.files)
      inputs.push_back({"--eval-data", file});
  std::set<std::string> sources;
  for (const plan::Parameter &parameter : plan.parameters())
    sources.insert(parameter.source().path());
  for (const std::string &source : sources)
    inputs.push_back({"the model's weights", source});
  std::erase_if(inputs, [](const NamedPath &input) { return input.path.empty(); });
  return inputs;
}

Status checkOne(const NamedPath &output, const std::vector<NamedPath> &inputs) {
  const auto &[option, path] = output;
  if (isFolder(path) && option != "--log-json")
    return invalidArgument(fmt::format("{}: '{}' is a folder: name a file in it", option, path));
  const std::string folder = parentFolder(path);
  for (const NamedPath &input : inputs)
    if (areSame(path, input.path) || (pathExists(path) && isOfModel(path) && areSame(folder, input.path)))
      return invalidArgument(
          fmt::format("{}: '{}' is a file that this run reads ({}): name another one", option, path, input.option));
  if (option == "--log-json") // is opened at once, and may be written where its folder takes no other file
    return Status::ok();
  if (!pathExists(folder) && option != "--trace") // which makes its own
    return notFound(fmt::format("{}: cannot write '{}': there is no folder '{}': make it first, or name another place",
                                option, path, folder));
  return checkWritable(folder).withContext(std::string(option));
}

} // namespace

Status checkOutputFiles(const RunOptions &options, const plan::Plan &plan) {
  const std::vector<NamedPath> inputs = inputsOf(options, plan);
  std::vector<NamedPath> checked;
  for (const NamedPath &output : {NamedPath{"--log-json", options.logJson}, NamedPath{"--trace", options.trace},
                                  NamedPath{"--dump-gradients", options.dumpGradients}}) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(output.path, error);
    const bool isSpecial = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
                           !std::filesystem::is_directory(status);
    if (output.path.empty() || isSpecial)
      continue;
    ZTC_RETURN_IF_ERROR(checkOne(output, inputs));
    for (const NamedPath &other : checked)
      if (other.path == output.path || areSame(other.path, output.path))
        return invalidArgument(fmt::format("{} and {} both name '{}': give each a file of its own", other.option,
                                           output.option, output.path));
    checked.push_back(output);
  }
  return Status::ok();
}

} // namespace ztc
