#include "compiler/Driver/PlanData.h"
#include "compiler/Driver/BesideProgram.h"
#include "compiler/Driver/CommandText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace ztc::driver {
namespace {

/// Text takes a tokenizer: the model's own where none is named and the folder has one.
std::string tokenizerOf(const CompileOptions &options, const TrainingRequest &request) {
  const bool isText = any_of(request.data, [](const std::string &file) {
    return !StringRef(file).ends_with(".bin") && !StringRef(file).ends_with(".idx") &&
           !StringRef(file).ends_with(".safetensors");
  });
  if (!request.tokenizer.empty() || !isText || !sys::fs::exists(options.input + "/tokenizer.json"))
    return request.tokenizer;
  return options.input;
}

/// Of both questions and runs.
std::vector<std::string> wordsOfData(const CompileOptions &options, const TrainingRequest &request) {
  std::vector<std::string> words;
  for (const std::string &file : request.data)
    words.push_back("--data=" + file);
  if (const std::string tokenizer = tokenizerOf(options, request); !tokenizer.empty())
    words.push_back("--tokenizer=" + tokenizer);
  if (request.tokenBytes)
    words.push_back("--token-bytes=" + std::to_string(request.tokenBytes));
  if (options.pack && request.documentEnd)
    words.push_back("--document-end=" + std::to_string(*request.documentEnd));
  if (options.pack && !request.longDocuments.empty())
    words.push_back("--long=" + request.longDocuments);
  return words;
}

/// What one answer of ztc-run says.
bool readAnswer(StringRef text, report::DataUse &use) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return consumeError(value.takeError()), false;
  json::Path::Root root;
  json::ObjectMapper read(*value, root);
  return read && read.map("rows", use.rows) && read.map("padding_share", use.paddingShare) &&
         read.map("targets", use.targets);
}

} // namespace

std::optional<report::DataUse> describeData(const CompileOptions &options, const TrainingRequest &request,
                                            uint64_t sequence, uint64_t vocabulary, std::string &problem) {
  const ScratchFolder folder("ztc-plan-data");
  if (folder.path.empty()) {
    problem = "the folder for temporary files cannot be written";
    return std::nullopt;
  }
  std::vector<std::string> words{"ztc-run",
                                 "--describe-data=" + std::to_string(sequence) + "," + std::to_string(vocabulary)};
  append_range(words, wordsOfData(options, request));
  if (options.pack)
    words.push_back("--pack");
  std::string answer;
  problem = runBeside(words, folder, &answer);
  report::DataUse use;
  if (problem.empty() && !readAnswer(answer, use))
    problem = "ztc-run --describe-data says no JSON";
  if (!problem.empty())
    return std::nullopt;
  use.epochs = request.epochs;
  // Where much is padding, what packing would leave; data that do not say where documents end cannot be packed.
  constexpr double kMuch = 0.05;
  if (!options.pack && use.paddingShare > kMuch) {
    words.push_back("--pack");
    report::DataUse packed;
    if (runBeside(words, folder, &answer).empty() && readAnswer(answer, packed))
      use.packedPaddingShare = packed.paddingShare;
  }
  return use;
}

std::string dataOptions(const CompileOptions &options, const TrainingRequest &request) {
  std::string text;
  for (const std::string &word : wordsOfData(options, request))
    text += " " + shellWord(word);
  return text + " --epochs=" + decimal(request.epochs);
}

} // namespace ztc::driver
