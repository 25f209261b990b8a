#include "compiler/Driver/Adapter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Adapters/Names.h"
#include "passes/Adapters/WeightUses.h"
#include "passes/Autodiff/Functions.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <optional>

using namespace mlir;

namespace ztc::driver {
namespace {

/// A module of the model: all that is known of it is the parameters whose names begin with its own.
struct Module {
  enum Kind { Linear, Embedding, Other };
  std::string name;   ///< as PEFT sees it
  std::string stored; ///< as the checkpoint calls it
  BlockArgument weight, bias;
  Kind kind = Other;
  bool isHead = false;
  bool isTied = false;   ///< head and table are one tensor
  std::string otherName; ///< of a table that is the head too: the head's name
};

/// What a family's checkpoints may leave out before the names of all but the head, by model_type.
StringRef basePrefix(StringRef modelType) {
  return llvm::StringSwitch<StringRef>(modelType)
      .Cases({"gpt2", "gpt_neo", "gptj", "codegen", "bloom", "falcon", "mpt", "gpt_bigcode"}, "transformer")
      .Case("gpt_neox", "gpt_neox")
      .Case("biogpt", "biogpt")
      .Default("model");
}

class AdapterResolver {
public:
  AdapterResolver(ModuleOp module, const CompileOptions &options, StringRef hfConfig, StringRef folder)
      : root(module), forward(findFunction(module, graph::Entry::Forward)), options(options), folder(folder),
        builder(module.getContext()) {
    nlohmann::json config = parseJson(hfConfig.str());
    if (config.is_object() && config.contains("model_type") && config["model_type"].is_string())
      prefix = basePrefix(config["model_type"].get<std::string>()).str() + ".";
  }

  /// What is trained and what is frozen, in a sentence.
  std::string summary() {
    uint64_t frozen = 0;
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      frozen += elementsOf(forward.getArgument(index));
    return llvm::formatv(
        "trained: adapters of {0} modules{1}, {2} elements beside {3} of the model, which is frozen", chosen.size(),
        copied.empty() ? "" : " and " + std::to_string(copied.size()) + " modules as a whole", trained, frozen);
  }

  LogicalResult run() {
    if (!forward || failed(readConfig()) || failed(openTensors()))
      return failure();
    findModules();
    if (failed(choose()) || failed(chooseCopies()))
      return failure();
    if (failed(checkUse()))
      return failure();
    root->setAttr(adapters::kAdapters, builder.getArrayAttr(entries));
    root->setAttr(adapters::kConfig,
                  builder.getStringAttr(writtenAdapterConfig(config, writtenTargets(), base(), isInputFirst)));
    return success();
  }

private:
  LogicalResult fail(const Twine &what) { return emitError(UnknownLoc::get(root.getContext())) << what; }

  LogicalResult readConfig() {
    std::string text, place = "--lora=" + options.lora;
    if (!options.lora.empty()) {
      StatusOr<std::string> made = adapterConfigText(options.lora);
      if (!made.isOk())
        return fail(made.status().message());
      text = std::move(*made);
    } else {
      llvm::SmallString<256> path(options.adapter);
      llvm::sys::path::append(path, "adapter_config.json");
      StatusOr<std::string> read = readWholeFile(std::string(path));
      if (!read.isOk())
        return fail("--adapter=" + options.adapter + ": " + read.status().message() +
                    "; expected a folder as PEFT saves one");
      text = std::move(*read);
      place = std::string(path);
    }
    StatusOr<AdapterConfig> parsed = parseAdapterConfig(text, place);
    if (!parsed.isOk())
      return fail(parsed.status().message());
    config = std::move(*parsed);
    return success();
  }

  LogicalResult openTensors() {
    if (options.adapter.empty())
      return success();
    llvm::SmallString<256> path(options.adapter), pickled(options.adapter);
    llvm::sys::path::append(path, "adapter_model.safetensors");
    llvm::sys::path::append(pickled, "adapter_model.bin");
    if (!llvm::sys::fs::exists(path)) {
      if (llvm::sys::fs::exists(pickled))
        return fail(pickled.str().str() +
                    ": is a pickle, which ztc does not read; save the adapter with PEFT as safetensors");
      return success();
    }
    if (std::error_code error = llvm::sys::fs::make_absolute(path))
      return fail(path.str().str() + ": " + error.message());
    StatusOr<SafetensorsFile> file = SafetensorsFile::open(std::string(path));
    if (!file.isOk())
      return fail(file.status().message());
    tensors.emplace(std::move(*file));
    return success();
  }

  /// The name that transformers' module has for a tensor of the checkpoint.
  std::string moduleName(StringRef stored, bool isHead) const {
    if (prefix.empty() || isHead || anyHasPrefix || stored.starts_with(prefix))
      return stored.str();
    return prefix + stored.str();
  }

  void findModules() {
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      anyHasPrefix |= !prefix.empty() && graph::argString(forward, index, graph::kName).starts_with(prefix);
    BlockArgument head = adapters::headWeight(forward);
    llvm::StringMap<unsigned> byName;
    auto moduleOf = [&](StringRef stored, bool isHead) -> Module & {
      auto [place, isNew] = byName.try_emplace(stored, modules.size());
      if (isNew) {
        modules.push_back({});
        modules.back().name = moduleName(stored, isHead);
        modules.back().stored = stored.str();
      }
      return modules[place->second];
    };
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      BlockArgument argument = forward.getArgument(index);
      StringRef name = graph::argString(forward, index, graph::kName);
      if (name.consume_back(".bias")) {
        moduleOf(name, false).bias = argument;
        continue;
      }
      if (!name.consume_back(".weight"))
        continue; // not the weight of a module
      bool isTable = llvm::any_of(argument.getUses(), adapters::isLookup);
      bool isMatrix = cast<RankedTensorType>(argument.getType()).getRank() == 2 && adapters::isFactor(argument);
      bool isTied = isTable && argument == head;
      Module &module = moduleOf(name, argument == head && !isTable);
      module.weight = argument;
      module.kind = isTable ? Module::Embedding : isMatrix ? Module::Linear : Module::Other;
      module.isHead = argument == head && !isTable;
      module.isTied = isTied;
      if (!isTied)
        continue;
      StringRef other = "lm_head";
      if (auto tied = forward.getArgAttrOfType<ArrayAttr>(index, graph::kTied); tied && !tied.empty())
        if (StringRef first = cast<StringAttr>(tied[0]).getValue(); first.consume_back(".weight"))
          other = first;
      module.otherName = (other + ".weight").str();
      Module &second = moduleOf(other, true);
      second.weight = argument;
      second.kind = Module::Linear;
      second.isHead = second.isTied = true;
    }
  }

  /// Where a tensor of the folder is, as a source; null, and noted as missing if it is `needed`, where it has none.
  DictionaryAttr sourceOf(const std::string &name, bool needed = true) {
    if (!tensors)
      return {};
    used.insert(name);
    const SafetensorsTensor *tensor = tensors->find(name);
    if (!tensor) {
      if (needed)
        missing.push_back(name);
      return {};
    }
    auto number = [&](uint64_t value) { return builder.getI64IntegerAttr(int64_t(value)); };
    return builder.getDictionaryAttr({
        builder.getNamedAttr("path", builder.getStringAttr(tensors->path())),
        builder.getNamedAttr("offset", number(tensor->offset)),
        builder.getNamedAttr("length", number(tensor->bytes)),
        builder.getNamedAttr("file_size", number(tensors->bytes().size())),
        builder.getNamedAttr("type", builder.getStringAttr(tensor->typeName)),
        builder.getNamedAttr("shape", builder.getDenseI64ArrayAttr(tensor->shape)),
    });
  }

  static uint64_t elementsOf(BlockArgument parameter) {
    return uint64_t(cast<RankedTensorType>(parameter.getType()).getNumElements());
  }
  static uint64_t sizeOf(BlockArgument matrix, unsigned dimension) {
    auto type = cast<RankedTensorType>(matrix.getType());
    return dimension < type.getRank() ? uint64_t(type.getDimSize(dimension)) : 0;
  }

  void addEntry(const Module &module, StringRef kind, BlockArgument parameter, const std::string &name,
                ArrayRef<std::pair<StringRef, std::string>> sources) {
    NamedAttrList entry;
    auto text = [&](StringRef key, StringRef value) { entry.append(key, builder.getStringAttr(value)); };
    text("kind", kind);
    text("parameter", graph::argString(forward, parameter.getArgNumber(), graph::kName));
    text("module", module.stored);
    text("name", name);
    for (const auto &[key, tensor] : sources)
      if (DictionaryAttr source = sourceOf(tensor))
        entry.append(key, source);
    trained += kind == "copy" || kind == "train"
                   ? elementsOf(parameter)
                   : uint64_t(config.rankOf(module.name)) * (sizeOf(parameter, 0) + sizeOf(parameter, 1));
    if (kind == "linear" || kind == "embedding") {
      // Of an embedding PEFT saves the frozen weight too: it may have got rows that the model's folder lacks.
      if (DictionaryAttr base = sourceOf(name + ".base_layer.weight", /*needed=*/false))
        entry.append("base", base);
      entry.append("rank", builder.getI64IntegerAttr(config.rankOf(module.name)));
      entry.append("scale", builder.getF64FloatAttr(config.scaleOf(module.name)));
      if (config.start == AdapterStart::Gaussian)
        text("start", "gaussian");
      else if (config.start == AdapterStart::Orthogonal)
        text("start", "orthogonal");
      if (kind == "linear" && config.hasBias)
        entry.append("has_bias", builder.getUnitAttr());
      if (kind == "linear" && config.dropout > 0) // PEFT's embeddings have none
        entry.append("dropout", builder.getF64FloatAttr(config.dropout));
    }
    if (kind == "copy" && module.isTied)
      text("uses", module.isHead ? "products" : "lookups");
    entries.push_back(entry.getDictionary(root.getContext()));
  }

  /// One of two uses of a tensor gets an adapter: what merges it must know of the other, also where config.json alone
  /// says so.
  void sayTied(const Module &module) {
    if (!module.isTied)
      return;
    const unsigned index = module.weight.getArgNumber();
    auto table = llvm::find_if(
        modules, [&](const Module &other) { return other.weight == module.weight && !other.otherName.empty(); });
    if (!forward.getArgAttr(index, graph::kTied) && table != modules.end())
      forward.setArgAttr(index, graph::kTied, builder.getStrArrayAttr({StringRef(table->otherName)}));
  }

  LogicalResult choose() {
    for (const Module &module : modules) {
      if (config.excludesModule(module.name))
        continue;
      const bool isAsked =
          config.isAllLinear ? module.kind == Module::Linear && !module.isHead : config.targetsModule(module.name);
      if (!isAsked)
        continue;
      const std::string name = std::string(kAdapterPrefix) + module.name;
      if (!module.weight || module.kind == Module::Other)
        return fail(
            "the adapter's target_modules ask for '" + module.name +
            "', which is neither a linear module nor an embedding: leave it out, or name it in modules_to_save");
      chosen.push_back(module.name);
      sayTied(module);
      if (module.kind == Module::Embedding) {
        if (config.hasBias)
          return fail("the adapter's lora_bias is not for embeddings, '" + module.name + "' is one");
        addEntry(module, "embedding", module.weight, name,
                 {{"a", name + ".lora_embedding_A"}, {"b", name + ".lora_embedding_B"}});
      } else {
        if (auto products = adapters::productsOf(module.weight))
          isInputFirst |= !products->front().isOutputFirst;
        SmallVector<std::pair<StringRef, std::string>> sources{{"a", name + ".lora_A.weight"},
                                                               {"b", name + ".lora_B.weight"}};
        if (config.hasBias)
          sources.push_back({"bias", name + ".lora_B.bias"});
        addEntry(module, "linear", module.weight, name, sources);
      }
    }
    return success();
  }

  /// Modules that are trained whole, and biases.
  LogicalResult chooseCopies() {
    for (const Module &module : modules) {
      const std::string name = std::string(kAdapterPrefix) + module.name;
      if (config.saves(module.name)) {
        copied.push_back(module.name);
        sayTied(module);
        if (module.weight)
          addEntry(module, "copy", module.weight, name + ".weight", {{"source", name + ".weight"}});
        if (module.bias)
          addEntry(module, "copy", module.bias, name + ".bias", {{"source", name + ".bias"}});
        continue;
      }
      const bool isTarget = llvm::is_contained(chosen, module.name);
      if (!module.bias || config.bias == AdapterBias::None || (config.bias == AdapterBias::OfTargets && !isTarget))
        continue;
      const std::string bias = name + (isTarget ? ".base_layer.bias" : ".bias");
      addEntry(module, "train", module.bias, bias, {{"source", bias}});
    }
    return success();
  }

  LogicalResult checkUse() {
    const std::string place = options.lora.empty() ? "--adapter=" + options.adapter : "--lora=" + options.lora;
    if (entries.empty()) {
      std::vector<std::string> names;
      for (const Module &module : modules)
        if (module.kind == Module::Linear && names.size() < 12)
          names.push_back(module.name);
      return fail(place + ": target_modules names no module of the model; linear ones are " + llvm::join(names, ", ") +
                  (names.size() == 12 ? ", ..." : ""));
    }
    for (const std::string &name : config.modulesToSave)
      if (llvm::none_of(copied, [&](const std::string &module) { return StringRef(module).ends_with(name); }))
        return fail(place + ": modules_to_save names '" + name + "', which the model does not have");
    if (config.start == AdapterStart::Given && !tensors)
      return fail(place + ": init_lora_weights is false, so tensors must be given: there is no "
                          "adapter_model.safetensors");
    auto some = [](ArrayRef<std::string> names) {
      std::string text;
      for (const std::string &name : names.take_front(4))
        text += (text.empty() ? "" : ", ") + name;
      return names.size() > 4 ? text + " and " + std::to_string(names.size() - 4) + " more" : text;
    };
    if (!missing.empty())
      return fail(tensors->path() + ": lacks " + some(missing) + ", which the configuration asks for");
    std::vector<std::string> unread;
    if (tensors)
      for (const SafetensorsTensor &tensor : tensors->tensors())
        if (!used.contains(tensor.name))
          unread.push_back(tensor.name);
    if (!unread.empty())
      return fail(tensors->path() + ": has " + some(unread) +
                  ", for which the model has no place: is it an adapter of this model?");
    return success();
  }

  /// Of all-linear: the last parts of the names where these say which modules are meant, else whole names.
  std::vector<std::string> writtenTargets() const {
    auto last = [](StringRef name) { return name.substr(name.rfind('.') + 1); };
    llvm::StringSet<> others;
    for (const Module &module : modules)
      if (!llvm::is_contained(chosen, module.name))
        others.insert(last(module.name));
    std::vector<std::string> names;
    for (const std::string &name : chosen) {
      std::string written = others.contains(last(name)) ? name : last(name).str();
      if (!llvm::is_contained(names, written))
        names.push_back(written);
    }
    llvm::sort(names);
    return names;
  }

  /// What the export says that the adapter is of, where its own configuration does not.
  std::string base() const {
    nlohmann::json json = parseJson(config.text);
    auto found = json.find("base_model_name_or_path");
    return found != json.end() && found->is_string() ? "" : folder.str();
  }

  ModuleOp root;
  func::FuncOp forward;
  const CompileOptions &options;
  StringRef folder;
  OpBuilder builder;
  AdapterConfig config;
  std::string prefix;        ///< of transformers' names, with its dot; empty: the family is not known
  bool anyHasPrefix = false; ///< the checkpoint's names have it
  bool isInputFirst = false; ///< a target's weight is stored as (inputs, outputs)
  std::optional<SafetensorsFile> tensors;
  std::vector<Module> modules;
  SmallVector<Attribute> entries;
  std::vector<std::string> chosen, copied, missing;
  uint64_t trained = 0; ///< elements
  llvm::StringSet<> used;
};

} // namespace

LogicalResult attachAdapter(ModuleOp module, const CompileOptions &options, StringRef hfConfig, StringRef folder,
                            std::vector<std::string> &notes) {
  AdapterResolver resolver(module, options, hfConfig, folder);
  if (failed(resolver.run()))
    return failure();
  notes.push_back(resolver.summary());
  return success();
}

} // namespace ztc::driver
