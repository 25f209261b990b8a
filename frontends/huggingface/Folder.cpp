#include "frontends/huggingface/Folder.h"
#include "frontends/huggingface/BuildDecoder.h"
#include "frontends/huggingface/Families.h"
#include "runtime/Core/File.h"
#include "runtime/Core/FloatTypes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"
#include <fmt/format.h>

namespace ztc::huggingface {
namespace {

/// What to do about a model type that is not built.
constexpr const char *kOtherwise =
    "export the model to ONNX instead (`ztc check --help` lists the model types that are built from a folder)";

/// No configuration is larger; what is, is another file.
constexpr uint64_t kLargestConfig = 16 << 20;

StatusOr<std::string> readText(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path);
  if (text.isOk() && text->size() > kLargestConfig)
    return dataLoss(path + ": is larger than any configuration");
  return text;
}

/// Of what bitsandbytes does there are nf4, with scales in 8 bits or as they are, and int8. Of all else
/// QuantizationConfig knows what is read.
void refuseQuantized(Config &config, Config quantization) {
  if (quantization.text("quant_method", "") != "bitsandbytes")
    return;
  if (quantization.flag("load_in_8bit", false))
    return;
  if (const std::string type = quantization.text("bnb_4bit_quant_type", "fp4"); type != "nf4")
    config.fail("quantization_config: bnb_4bit_quant_type is '" + type + "'; of 4 bits ztc reads nf4");
}

/// What no model type changes: quantised weights, code of its own, tasks other than language modelling.
void refuseUnsupported(Config &config, const std::string &modelType) {
  if (auto quantization = config.child("quantization_config"))
    refuseQuantized(config, *quantization);
  if (!findFamily(modelType) && !findWrapper(modelType) && config.has("auto_map") && !config.isNull("auto_map"))
    config.fail("model_type '" + modelType + "' needs code of its own (auto_map), which ztc does not run; " +
                kOtherwise);
  for (const std::string &name : config.texts("architectures"))
    for (const char *task : {"Classification", "QuestionAnswering", "RewardModel", "MultipleChoice"})
      if (name.find(task) != std::string::npos)
        config.fail("architectures names " + name + "; ztc trains language models (...ForCausalLM)");
}

/// The family of a model type, or the message why there is none.
const Family *familyOf(Config &config, const std::string &modelType) {
  const Family *family = findFamily(modelType);
  if (family || !config.status().isOk())
    return family;
  std::string why = whyRefused(modelType);
  if (modelType.empty())
    config.fail("has no model_type; transformers' configurations have one");
  else
    config.fail("model_type '" + modelType + "' " + (why.empty() ? "is not one that ztc builds" : why) + "; " +
                kOtherwise);
  return nullptr;
}

/// How the model's type rounds a number.
double roundedTo(StoragePrecision precision, double value) {
  if (storesBf16(precision))
    return fromBf16(toBf16(float(value)));
  return precision == StoragePrecision::Fp16 ? fromF16(toF16(float(value))) : float(value);
}

std::string joined(const std::vector<std::string> &list) {
  std::string text;
  for (const std::string &entry : list)
    text += (text.empty() ? "" : ", ") + entry;
  return text;
}

Status save(const GraphWriter &graph, const std::string &folder, const std::string &path, FolderModel &model) {
  llvm::SmallString<256> home(folder), to(llvm::sys::path::parent_path(path));
  for (llvm::SmallString<256> *place : {&home, &to}) {
    (void)llvm::sys::fs::make_absolute(*place);
    llvm::sys::path::remove_dots(*place, /*remove_dot_dot=*/true);
  }
  std::string prefix;
  if (home != to) {
    llvm::StringRef below = home;
    if (below.consume_front(to) && below.consume_front("/"))
      prefix = below.str() + "/";
    else if (model.quantized.empty())
      model.notes.push_back(path + " finds its weights only with --weights=" + folder +
                            ": it is not beside the folder");
  }
  if (!model.quantized.empty())
    model.notes.push_back(path + " lacks the " + std::to_string(model.quantized.size()) +
                          " weights that the folder has in fewer bits: compile it with --weights of a folder that has "
                          "them in full, as an export");
  std::string bytes = graph.serialise(prefix);
  std::error_code error;
  llvm::ToolOutputFile out(path, error, llvm::sys::fs::OF_None);
  if (!error) {
    out.os() << bytes;
    out.os().close();
    error = out.os().error();
  }
  if (error) {
    out.os().clear_error();
    return failedPrecondition("cannot write " + path + ": " + error.message());
  }
  out.keep();
  return Status::ok();
}

} // namespace

bool isModelFolder(const std::string &path) {
  return llvm::sys::fs::is_directory(path);
}

/// The language model's part of a multi-modal configuration. `mayBeTied` is set where either part ties the head:
/// version 5 reads it above, version 4 below.
static Config textPart(Config &config, const Wrapper &wrapper, std::string &modelType, bool &mayBeTied) {
  std::optional<Config> text = config.child(wrapper.part);
  if (!text && wrapper.olderPart) {
    text = config.child(wrapper.olderPart);
    if (text)
      text->set("model_type", wrapper.textType);
    if (text && config.has("sliding_window"))
      text->set("sliding_window", config.value("sliding_window"));
  }
  if (!text) { // version 4's Qwen2-VL has it all at the top
    mayBeTied = wrapper.isTied;
    if (wrapper.eitherTies && wrapper.isTied) // what text_config would say without a key
      config.set("tie_word_embeddings", true);
    return config;
  }
  modelType = text->text("model_type", wrapper.textType);
  if (findWrapper(modelType)) // of a model that says something beside what it reads: the part's own head counts
    return *text;
  bool below = text->flag("tie_word_embeddings", wrapper.isTied), above = config.flag("tie_word_embeddings", below);
  mayBeTied = below || above;
  text->set("tie_word_embeddings", above || (wrapper.eitherTies && below));
  return *text;
}

/// As transformers does: a head that is stored with other numbers than the embedding's is not tied to it, and one that
/// is not stored is.
static void tieAsWeightsAre(const Checkpoint &checkpoint, const std::string &place, bool mayBeTied, Decoder &decoder,
                            FolderModel &model) {
  std::string embedding = decoder.base + decoder.embedding + ".weight", head = decoder.head + ".weight";
  if (decoder.isTied && checkpoint.differ(embedding, head)) {
    decoder.isTied = false;
    model.notes.push_back(place + ": ties the head to the embedding, but " + checkpoint.ownName(head) +
                          " is stored with other numbers: both are trained, each by itself");
  } else if (!decoder.isTied && mayBeTied && checkpoint.has(embedding) && !checkpoint.has(head)) {
    decoder.isTied = true;
  }
}

/// Rows within which every query chooses all keys; says what follows.
static void limitToChosenKeys(const std::string &place, const Decoder &decoder, FolderModel &model) {
  const int64_t most = decoder.chosenKeys;
  if (!most)
    return;
  std::string note = fmt::format("{}: {} is {}: rows of up to {} tokens are built, in which every query sees all keys "
                                 "before it",
                                 place, decoder.chosenKeysKey, most, most);
  if (!decoder.chooserIsTrained)
    note += "; what would choose among more has no gradient and stays as it is";
  model.notes.push_back(std::move(note));
  if (model.positionLimit && model.positionLimit <= most)
    return;
  model.positionLimit = most;
  model.limitReason =
      fmt::format("{}: {} is {}: in longer rows each query chooses the keys that it sees, which ztc does "
                  "not build; give --seq={} or less",
                  place, decoder.chosenKeysKey, most, most);
}

StatusOr<FolderModel> buildFolder(const std::string &folder, StoragePrecision precision, const std::string &savePath) {
  std::string place = folder + "/config.json";
  if (!llvm::sys::fs::exists(place))
    return notFound(folder +
                    ": is a folder without config.json: give a model's folder as it is downloaded (config.json, "
                    "*.safetensors), or an ONNX file");
  ZTC_ASSIGN_OR_RETURN(std::string text, readText(place));
  ZTC_ASSIGN_OR_RETURN(Config config, Config::parse(text, place));
  const QuantizationConfig quantization = parseQuantizationConfig(text);
  if (!quantization.unsupported.empty())
    config.fail("quantization_config: " + quantization.unsupported);
  FolderModel model;
  model.modelType = config.text("model_type", "");
  refuseUnsupported(config, model.modelType);
  bool mayBeTied = false;
  const Wrapper *wrapper = nullptr;
  while (const Wrapper *next = findWrapper(model.modelType)) {
    wrapper = next;
    model.modelType = wrapper->textType;
    Config text = textPart(config, *wrapper, model.modelType, mayBeTied);
    text.adopt(config);
    config = std::move(text);
  }
  if (wrapper) {
    model.notes.push_back(place + ": a multi-modal model; its language model (" + model.modelType +
                          ") is trained on text");
    refuseUnsupported(config, model.modelType);
  }
  const Family *family = familyOf(config, model.modelType);
  ZTC_RETURN_IF_ERROR(config.status());
  Decoder decoder;
  decoder.modelType = model.modelType;
  family->fill(config, decoder);
  // transformers' multi-modal classes have a head of their own: what follows the logits of the language model's class
  // is left out by version 5 and was not by all of version 4.
  if (wrapper && !wrapper->scalesLogits &&
      (decoder.logitScale != 1 || decoder.logitDivisor != 1 || decoder.logitSoftCap))
    config.fail("model_type '" + model.modelType + "' scales or caps its logits, which transformers' class of '" +
                wrapper->modelType + "' does not do in every version; export the model to ONNX instead");
  ZTC_RETURN_IF_ERROR(config.status());
  model.notes.insert(model.notes.end(), decoder.notes.begin(), decoder.notes.end());
  if (std::vector<std::string> unknown = config.unknownKeys(); !unknown.empty())
    model.notes.push_back(place + ": transformers' " + model.modelType + " does not read " + joined(unknown) +
                          ", and neither does ztc");
  decoder.embeddingScale = roundedTo(precision, decoder.embeddingScale);
  if (decoder.layerInputs)
    decoder.layerInputs->scale = roundedTo(precision, decoder.layerInputs->scale);
  for (Layer &layer : decoder.layers)
    if (std::optional<double> &cutoff = layer.feedForward.cutoff)
      cutoff = roundedTo(precision, *cutoff);
  model.positionLimit = decoder.positionLimit; // a scaled rotary embedding reaches beyond it
  for (const Rope &rope : decoder.ropes)
    model.positionLimit = std::max(model.positionLimit, rope.reach);
  limitToChosenKeys(place, decoder, model);

  ZTC_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder, quantization));
  checkpoint.setRenamed(decoder.renamed);
  checkpoint.choosePrefix(decoder.base, decoder.embedding + ".weight");
  tieAsWeightsAre(checkpoint, place, mayBeTied, decoder, model);
  GraphWriter graph("ztc", model.modelType);
  DecoderBuilder builder(decoder, checkpoint, graph);
  builder.build();
  if (!checkpoint.problems().empty()) {
    std::string problems;
    for (size_t i = 0; i < checkpoint.problems().size() && i < 8; ++i)
      problems += "\n  " + checkpoint.problems()[i];
    if (checkpoint.problems().size() > 8)
      problems += "\n  and " + std::to_string(checkpoint.problems().size() - 8) + " more";
    return dataLoss(folder + ": weights do not fit config.json:" + problems);
  }
  model.hasWeights = checkpoint.hasWeights();
  model.quantized = checkpoint.quantized();
  model.dequantizedType = safetensorsTypeName(quantization.type);
  model.initializerRange = fmt::format("{}", decoder.initializerRange);
  std::vector<FreshValues> fresh = builder.freshNorms();
  fresh.insert(fresh.end(), decoder.fresh.begin(), decoder.fresh.end());
  model.freshValues = printFreshValues(fresh);
  if (!model.hasWeights)
    model.notes.push_back(folder + " has no model.safetensors: weights are fresh, normal with initializer_range " +
                          model.initializerRange + "; give ztc-run --weights or --init to choose");
  model.onnx = graph.serialise();
  if (model.onnx.empty())
    return internalError(folder + ": the graph cannot be written as an ONNX message");
  if (!savePath.empty())
    ZTC_RETURN_IF_ERROR(save(graph, folder, savePath, model));
  return model;
}

} // namespace ztc::huggingface
