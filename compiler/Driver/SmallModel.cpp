#include "compiler/Driver/SmallModel.h"
#include "frontends/huggingface/Folder.h"
#include "frontends/huggingface/SmallForm.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc {

/// Rows and tokens of the small form.
static constexpr uint64_t kSmallBatch = 2, kSmallSequence = 8;

static void writeText(const std::string &path, const std::string &text) {
  std::error_code error;
  llvm::raw_fd_ostream(path, error) << text;
}

/// The format in which a folder of this configuration has its weights, where these are in fewer bits; "" else. Which
/// are taken, and what of them, reading the folder has said.
static std::string storedFormat(const std::string &config) {
  const nlohmann::json json = parseJson(config);
  if (!json.is_object() || !json.contains("quantization_config") || !json["quantization_config"].is_object())
    return {};
  const nlohmann::json &quantization = json["quantization_config"];
  const auto flag = quantization.find("load_in_8bit");
  return flag != quantization.end() && *flag == nlohmann::json(true) ? "int8" : "nf4";
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
  if (huggingface::isModelFolder(options.input))
    shrinkFolder();
}

void SmallModel::shrinkFolder() {
  StatusOr<std::string> config = readWholeFile(small.input + "/config.json");
  llvm::SmallString<128> made;
  if (!config.isOk() || llvm::sys::fs::createUniqueDirectory("ztc-verify", made))
    return;
  folder = made.str().str();
  const std::string narrow = huggingface::smallForm(*config);
  writeText(folder + "/config.json", narrow);
  if (small.quantize.empty() && small.weights.empty())
    small.quantize = storedFormat(*config);
  small.input = folder;
  small.weights.clear();
  if (small.adapter.empty())
    return;
  // Tensors of the adapter have the sizes of the large model. Where the configuration cannot be read, compiling says
  // so.
  StatusOr<std::string> adapter = readWholeFile(small.adapter + "/adapter_config.json");
  const std::string beside = folder + "/adapter";
  if (!adapter.isOk() || llvm::sys::fs::create_directory(beside))
    return;
  writeText(beside + "/adapter_config.json", huggingface::smallAdapter(*adapter, narrow));
  small.adapter = beside;
}

SmallModel::~SmallModel() {
  if (!folder.empty())
    (void)llvm::sys::fs::remove_directories(folder);
}

} // namespace ztc
