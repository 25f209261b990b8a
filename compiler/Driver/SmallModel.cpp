#include "compiler/Driver/SmallModel.h"
#include "frontends/huggingface/Folder.h"
#include "frontends/huggingface/SmallForm.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "llvm/Support/FileSystem.h"

namespace ztc::driver {

/// Rows and tokens of the small form.
static constexpr uint64_t kSmallBatch = 2, kSmallSequence = 8;

/// The format in which a folder of this configuration has its weights, where these are in fewer bits. Which
/// are taken, and what of them, reading the folder has said.
static FrozenFormat storedFormat(const std::string &config) {
  const nlohmann::json json = parseJson(config);
  if (!json.is_object() || !json.contains("quantization_config") || !json["quantization_config"].is_object())
    return FrozenFormat::Plain;
  const nlohmann::json &quantization = json["quantization_config"];
  if (quantization.value("quant_method", "") != "bitsandbytes") // what is dequantised
    return FrozenFormat::Plain;
  const auto isSet = [&](const char *key) {
    const auto flag = quantization.find(key);
    return flag != quantization.end() && *flag == nlohmann::json(true);
  };
  if (isSet("load_in_8bit"))
    return FrozenFormat::Int8;
  return isSet("bnb_4bit_use_double_quant") ? FrozenFormat::Nf4 : FrozenFormat::Nf4Single;
}

CompileOptions withoutOutputs(CompileOptions options) {
  options.memoryBudget = 0;
  if (options.recompute == "auto")
    options.recompute = "cheap";
  options.dumpFolder.clear();
  options.remarks.clear();
  options.remarksFile.clear();
  options.saveOnnx.clear();
  options.printPipeline = false;
  options.explainPasses = false;
  options.targets = {"host"};
  return options;
}

SmallModel::SmallModel(const CompileOptions &options) : small(withoutOutputs(options)) {
  small.batch = kSmallBatch;
  small.seq = kSmallSequence;
  // Its tensors are small, and its states are to be stored as the model's are.
  if (small.optimizerState == StateFormat::Int8)
    small.passOptions.push_back("ztc-store-masters.block-from=256");
  if (huggingface::isModelFolder(options.input))
    shrinkFolder();
}

void SmallModel::shrinkFolder() {
  StatusOr<std::string> config = readWholeFile(small.input + "/config.json");
  if (!config.isOk())
    return;
  folder.emplace("ztc-verify");
  if (folder->path.empty())
    return;
  const std::string narrow = huggingface::smallForm(*config);
  (void)writeFile(*folder / "config.json", narrow);
  if (small.quantize == FrozenFormat::Plain && small.weights.empty())
    small.quantize = storedFormat(*config);
  small.input = folder->path;
  small.weights.clear();
  if (small.adapter.empty())
    return;
  // Tensors of the adapter have the sizes of the large model. Where the configuration cannot be read, compiling says
  // so.
  StatusOr<std::string> adapter = readWholeFile(small.adapter + "/adapter_config.json");
  const std::string beside = *folder / "adapter";
  if (!adapter.isOk() || llvm::sys::fs::create_directory(beside))
    return;
  (void)writeFile(beside + "/adapter_config.json", huggingface::smallAdapter(*adapter, narrow));
  small.adapter = beside;
}

} // namespace ztc::driver
