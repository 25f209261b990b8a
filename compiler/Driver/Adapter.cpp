#include "compiler/Driver/Adapter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/AdapterExperts.h"
#include "compiler/Driver/ModelModules.h"
#include "passes/Adapters/Names.h"
#include "passes/Adapters/WeightUses.h"
#include "passes/Autodiff/Functions.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/ListText.h"
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <optional>

using namespace mlir;

namespace ztc::driver {
namespace {

class AdapterResolver {
public:
  AdapterResolver(ModuleOp module, const CompileOptions &options, StringRef hfConfig, StringRef folder,
                  std::vector<std::string> &notes)
      : root(module), forward(findFunction(module, graph::Entry::Forward)), options(options), folder(folder),
        builder(module.getContext()), model(forward, hfConfig), notes(notes) {}

  /// What is trained and what is frozen, in a sentence.
  std::string summary() {
    uint64_t frozen = 0;
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      frozen += elementsOf(forward.getArgument(index));
    return llvm::formatv("trained: adapters of {0} modules{1}, {2} elements beside {3} of the model, which is frozen",
                         chosen.size() + ofParameters.size(),
                         copied.empty() ? "" : " and " + std::to_string(copied.size()) + " modules as a whole", trained,
                         frozen);
  }

  LogicalResult run() {
    if (!forward || failed(readConfig()) || failed(openTensors()))
      return failure();
    if (failed(choose()) || failed(chooseWeights()) || failed(chooseExperts()) || failed(chooseCopies()) ||
        failed(chooseTokenRows()))
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

  static uint64_t outputsOf(BlockArgument weight) {
    auto products = adapters::productsOf(weight);
    return sizeOf(weight, !products || products->front().isOutputFirst ? 0 : 1);
  }

  void addEntry(const ModelModule &module, StringRef kind, BlockArgument parameter, const std::string &name,
                SmallVector<std::pair<StringRef, std::string>> sources) {
    NamedAttrList entry;
    auto text = [&](StringRef key, StringRef value) { entry.append(key, builder.getStringAttr(value)); };
    text("kind", kind);
    text("parameter", graph::argString(forward, parameter.getArgNumber(), graph::kName));
    text("module", module.stored);
    text("name", name);
    if (config.hasMagnitude && (kind == "linear" || kind == "embedding"))
      sources.push_back({"magnitude", name + ".lora_magnitude_vector"});
    for (const auto &[key, tensor] : sources)
      if (DictionaryAttr source = sourceOf(tensor))
        entry.append(key, source);
    if (kind == "rows")
      entry.append("rows", builder.getDenseI64ArrayAttr(config.rowsOf(module.name)->rows));
    trained += kind == "copy" || kind == "train" ? elementsOf(parameter)
               : kind == "rows" ? config.rowsOf(module.name)->rows.size() * sizeOf(parameter, 1)
                                : uint64_t(config.rankOf(module.name)) * (sizeOf(parameter, 0) + sizeOf(parameter, 1));
    if (kind == "linear" || kind == "embedding") {
      // Of an embedding or a head PEFT saves the frozen weight too: it may have got rows that the model's folder lacks.
      if (DictionaryAttr base = sourceOf(name + ".base_layer.weight", /*needed=*/false))
        entry.append("base", base);
      if (module.bias) // of a head, and beside its frozen weight
        used.insert(name + ".base_layer.bias");
      entry.append("rank", builder.getI64IntegerAttr(config.rankOf(module.name)));
      entry.append("scale", builder.getF64FloatAttr(config.scaleOf(module.name)));
      if (config.start == AdapterStart::Gaussian)
        text("start", "gaussian");
      else if (config.start == AdapterStart::Orthogonal)
        text("start", "orthogonal");
      if (config.hasMagnitude) {
        entry.append("dora", builder.getUnitAttr());
        trained += kind == "embedding" ? sizeOf(parameter, 1) : outputsOf(parameter);
      }
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
  void sayTied(const ModelModule &module) {
    if (!module.isTied)
      return;
    const unsigned index = module.weight.getArgNumber();
    auto table = llvm::find_if(model.modules(), [&](const ModelModule &other) {
      return other.weight == module.weight && !other.otherName.empty();
    });
    if (!forward.getArgAttr(index, graph::kTied) && table != model.modules().end())
      forward.setArgAttr(index, graph::kTied, builder.getStrArrayAttr({StringRef(table->otherName)}));
  }

  LogicalResult choose() {
    ExpertsLeftOut leftOut(model, config, tensors ? &*tensors : nullptr);
    for (const ModelModule &module : model.modules()) {
      if (config.excludesModule(module.name) || config.excludesModule(module.renamed))
        continue;
      const std::optional<ExpertPart> part = expertPartOf(module.name);
      const bool isParameter = part ? config.targetsParameter(part->stack) : config.targetsWeightOf(module.renamed);
      const bool isAsked = config.isAllLinear ? module.kind == ModelModule::Linear && !module.isHead && !isParameter &&
                                                    config.isInLayers(module.name)
                                              : config.targetsModule(module.name);
      if (!isAsked || leftOut.take(module))
        continue;
      if (refusesAdapter(module.name, model.type()))
        return fail("the adapter's target_modules ask for '" + module.name +
                    "', of which PEFT refuses adapters in "
                    "model_type " +
                    model.type() + ": leave it out");
      const std::string name = std::string(kAdapterPrefix) + module.name;
      if (!module.weight || module.kind == ModelModule::Other)
        return fail(
            "the adapter's target_modules ask for '" + module.name +
            "', which is neither a linear module nor an embedding: leave it out, or name it in modules_to_save");
      chosen.push_back(module.name);
      sayTied(module);
      if (module.kind == ModelModule::Embedding) {
        if (config.hasBias)
          return fail("the adapter's lora_bias is not for embeddings, '" + module.name + "' is one");
        addEntry(module, "embedding", module.weight, name,
                 {{"a", name + ".lora_embedding_A"}, {"b", name + ".lora_embedding_B"}});
      } else {
        if (auto products = adapters::productsOf(module.weight))
          isInputFirst |= !products->front().isOutputFirst;
        addLinear(module);
      }
    }
    for (const std::string &note : {leftOut.note(), leftOut.noteOfOutputs(), noteOfHalves(chosen, model.type())})
      if (!note.empty())
        notes.push_back(note);
    return success();
  }

  void addLinear(const ModelModule &module) {
    const std::string name = std::string(kAdapterPrefix) + module.name;
    SmallVector<std::pair<StringRef, std::string>> sources{{"a", name + ".lora_A.weight"},
                                                           {"b", name + ".lora_B.weight"}};
    if (config.hasBias)
      sources.push_back({"bias", name + ".lora_B.bias"});
    addEntry(module, "linear", module.weight, name, sources);
  }

  /// Weights that are targeted as parameters, such as the routers of transformers 5, which are not linear modules.
  LogicalResult chooseWeights() {
    isFound.assign(config.parameters.size(), false);
    for (const ModelModule &module : model.modules()) {
      const auto products = module.weight ? adapters::productsOf(module.weight) : std::nullopt;
      const bool isOutputLast = products && !products->front().isOutputFirst;
      if (expertPartOf(module.name) || !config.targetsWeightOf(module.renamed) || module.kind != ModelModule::Linear ||
          module.isTied || isOutputLast)
        continue;
      noteFound(module.renamed + ".weight");
      if (llvm::is_contained(chosen, module.name) || config.saves(module.renamed))
        return fail("the adapter's target_parameters: '" + module.renamed +
                    ".weight' is of a module in target_modules or modules_to_save too: name it in one of them");
      ofParameters.push_back(module.renamed);
      ModelModule own = module;
      own.name = module.renamed;
      addLinear(own);
    }
    return success();
  }

  /// Notes which names of target_parameters a parameter has.
  void noteFound(StringRef parameter) {
    for (auto [key, wasFound] : llvm::zip_equal(config.parameters, isFound))
      wasFound |= parameter.ends_with(key);
  }

  /// Stacks of experts that are one tensor in the checkpoint, (experts, ., .).
  LogicalResult chooseStacks() {
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      BlockArgument argument = forward.getArgument(index);
      if (cast<RankedTensorType>(argument.getType()).getRank() != 3)
        continue;
      const std::string stored = graph::argString(forward, index, graph::kName).str();
      for (const std::string &stack : stacksOfTensor(model.nameOf(stored, false))) {
        if (!config.targetsParameter(stack))
          continue;
        noteFound(stack);
        ofParameters.push_back(stack);
        addStack(stack, stored, cast<RankedTensorType>(argument.getType()));
        break;
      }
    }
    return success();
  }

  void addStack(const std::string &stack, const std::string &stored, RankedTensorType type) {
    const std::string name = std::string(kAdapterPrefix) + config.stackName(stack);
    const int64_t rank = config.rankOf(stack);
    NamedAttrList entry;
    auto text = [&](StringRef key, StringRef value) { entry.append(key, builder.getStringAttr(value)); };
    text("kind", "stack");
    text("parameter", stored);
    text("module", StringRef(stored).rsplit('.').first);
    text("name", name);
    for (const auto &[key, tensor] : {std::pair("a", ".lora_A.weight"), std::pair("b", ".lora_B.weight")})
      if (DictionaryAttr source = sourceOf(name + tensor))
        entry.append(key, source);
    entry.append("rank", builder.getI64IntegerAttr(rank));
    entry.append("scale", builder.getF64FloatAttr(config.scaleOf(stack)));
    if (config.start == AdapterStart::Gaussian)
      text("start", "gaussian");
    else if (config.start == AdapterStart::Orthogonal)
      text("start", "orthogonal");
    if (swapsStacks(model.type()))
      entry.append("swapped", builder.getUnitAttr());
    entries.push_back(entry.getDictionary(root.getContext()));
    trained += uint64_t(rank * type.getDimSize(0) * (type.getDimSize(1) + type.getDimSize(2)));
  }

  /// Experts whose stack is targeted; each is a parameter of its own here.
  LogicalResult chooseExperts() {
    llvm::StringMap<int64_t> counts; // of experts, by stack
    for (const ModelModule &module : model.modules())
      if (auto part = expertPartOf(module.name); part && module.kind == ModelModule::Linear)
        counts[part->stack] = std::max(counts[part->stack], part->expert + 1);
    for (const ModelModule &module : model.modules()) {
      const std::optional<ExpertPart> part = expertPartOf(module.name);
      if (!part || !counts.count(part->stack) || !config.targetsParameter(part->stack))
        continue;
      noteFound(part->stack);
      if (module.kind != ModelModule::Linear || llvm::is_contained(chosen, module.name))
        return fail("the adapter's target_parameters: '" + module.name +
                    "' is not a linear module, or in target_modules too");
      ofParameters.push_back(module.name);
      addExpert(module, *part, counts[part->stack]);
    }
    if (failed(chooseStacks()))
      return failure();
    for (auto [key, wasFound] : llvm::zip_equal(config.parameters, isFound))
      if (!wasFound)
        return fail("the adapter's target_parameters name '" + key +
                    "': the model has none of that name that can have an adapter (gate_up_proj and down_proj of "
                    "experts, one by one in the checkpoint or one tensor of all, and weights of linear modules, as "
                    "the router's gate.weight)");
    return success();
  }

  void addExpert(const ModelModule &module, const ExpertPart &part, int64_t experts) {
    const std::string name = std::string(kAdapterPrefix) + config.stackName(part.stack);
    const int64_t rank = config.rankOf(part.stack), outputs = int64_t(outputsOf(module.weight));
    NamedAttrList entry;
    auto text = [&](StringRef key, StringRef value) { entry.append(key, builder.getStringAttr(value)); };
    auto number = [&](StringRef key, int64_t value) { entry.append(key, builder.getI64IntegerAttr(value)); };
    text("kind", "expert");
    text("parameter", graph::argString(forward, module.weight.getArgNumber(), graph::kName));
    text("module", module.stored);
    text("name", name);
    for (const auto &[key, tensor] : {std::pair("a", ".lora_A.weight"), std::pair("b", ".lora_B.weight")})
      if (DictionaryAttr source = sourceOf(name + tensor, /*needed=*/part.expert == 0))
        entry.append(key, source);
    number("rank", rank);
    entry.append("scale", builder.getF64FloatAttr(config.scaleOf(part.stack)));
    if (config.start == AdapterStart::Gaussian)
      text("start", "gaussian");
    else if (config.start == AdapterStart::Orthogonal)
      text("start", "orthogonal");
    number("experts", experts);
    number("expert", part.expert);
    number("outputs", part.isHalf ? 2 * outputs : outputs);
    number("first_output", part.isSecond ? outputs : 0);
    entries.push_back(entry.getDictionary(root.getContext()));
    const uint64_t inputs = elementsOf(module.weight) / uint64_t(outputs);
    trained += uint64_t(rank) * ((part.isSecond ? 0 : inputs) + uint64_t(outputs));
  }

  /// Under which name a module is trained whole: there PEFT knows transformers' own alone. A folder that an older one
  /// wrote keeps its names.
  std::string savedName(const ModelModule &module) const {
    const bool isOlder = tensors && tensors->find(std::string(kAdapterPrefix) + module.name + ".weight");
    return config.saves(module.renamed) && !isOlder ? module.renamed : module.name;
  }

  /// Parameters inside modules that are trained whole, other than the weight and bias of a module. Fails if such a
  /// module contains experts: PEFT saves their parameters as stacks, which checkpoints may store expert by expert.
  LogicalResult chooseContents() {
    auto isInSaved = [&](StringRef name) { return config.saves(name.rsplit('.').first); };
    auto failOf = [&](const Twine &name) {
      return fail(
          "the adapter's modules_to_save: '" + name +
          "' is of the experts in a module that they name, and ztc trains none of these whole: name the modules "
          "beside the experts one by one, and the experts in target_parameters");
    };
    for (const ModelModule &module : model.modules()) {
      const std::optional<ExpertPart> part = expertPartOf(module.name);
      if ((part && (isInSaved(module.name) || isInSaved(part->stack))) ||
          (!stacksOfTensor(module.name + ".weight").empty() && config.saves(module.name)))
        return failOf(module.name);
    }
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      const StringRef stored = graph::argString(forward, index, graph::kName);
      const std::string name = model.nameOf(stored, false);
      if (stored.ends_with(".weight") || stored.ends_with(".bias") || !isInSaved(name))
        continue;
      if (!stacksOfTensor(name).empty())
        return failOf(name);
      ModelModule module;
      module.name = StringRef(name).rsplit('.').first.str();
      module.stored = stored.rsplit('.').first.str();
      copied.push_back(module.name);
      const std::string saved = std::string(kAdapterPrefix) + name;
      addEntry(module, "copy", forward.getArgument(index), saved, {{"source", saved}});
    }
    return success();
  }

  /// Modules that are trained whole, and biases.
  LogicalResult chooseCopies() {
    for (const ModelModule &module : model.modules()) {
      std::string name = std::string(kAdapterPrefix) + module.name;
      if (config.saves(module.name) || config.saves(module.renamed)) {
        copied.push_back(savedName(module));
        name = std::string(kAdapterPrefix) + copied.back();
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
    return chooseContents();
  }

  bool isTaken(const ModelModule &module) const {
    return llvm::is_contained(chosen, module.name) || llvm::is_contained(copied, module.name);
  }

  /// The head that is one tensor with `table` gets the same trained rows, as PEFT ties them: nothing else may change
  /// it, and a list of its own must be that of the table.
  LogicalResult checkHeadOf(const ModelModule &table, const TokenRows &rows, MutableArrayRef<bool> isFound) {
    for (const ModelModule &head : model.modules()) {
      if (!head.isHead || head.weight != table.weight)
        continue;
      const std::string what =
          "the adapter's trainable_token_indices: '" + table.name + "' is the head '" + head.name + "' too (tied)";
      if (isTaken(head))
        return fail(what + ", which is in target_modules or modules_to_save: only one of them can change it");
      if (head.bias)
        return fail(what + ", and PEFT leaves out the bias of such a head: name the table in modules_to_save");
      const TokenRows *own = config.rowsOf(head.name);
      if (!own || own->module.empty())
        continue;
      if (own->rows != rows.rows)
        return fail(what + ", for which other rows are listed: ztc trains the same ones of both");
      isFound[own - config.tokenRows.data()] = true;
    }
    return success();
  }

  /// Rows of tables that are trained in place of the model's.
  LogicalResult chooseTokenRows() {
    SmallVector<bool> isFound(config.tokenRows.size(), false);
    for (const ModelModule &module : model.modules()) {
      if (module.kind != ModelModule::Embedding || !module.weight)
        continue;
      const TokenRows *table = config.rowsOf(module.name);
      if (!table || (table->module.empty() && !module.isOfTokens))
        continue;
      isFound[table - config.tokenRows.data()] = true;
      const std::string what = "the adapter's trainable_token_indices: '" + module.name + "'";
      if (isTaken(module))
        return fail(what + " is in target_modules or modules_to_save too: only one of them can change it");
      if (module.isTied && failed(checkHeadOf(module, *table, isFound)))
        return failure();
      for (int64_t row : table->rows)
        if (uint64_t(row) >= sizeOf(module.weight, 0))
          return fail(what + " has " + Twine(sizeOf(module.weight, 0)) + " rows, there is no row " + Twine(row));
      const std::string name = std::string(kAdapterPrefix) + module.name + std::string(kTokenRowsSuffix);
      addEntry(module, "rows", module.weight, name, {{"source", name}});
    }
    for (auto [table, wasFound] : llvm::zip_equal(config.tokenRows, isFound))
      if (!wasFound)
        return fail("the adapter's trainable_token_indices: the model has no table of embeddings " +
                    (table.module.empty() ? "of its tokens" : "whose name ends with '" + table.module + "'"));
    return success();
  }

  LogicalResult checkUse() {
    const std::string place = options.lora.empty() ? "--adapter=" + options.adapter : "--lora=" + options.lora;
    if (entries.empty()) {
      std::vector<std::string> names;
      for (const ModelModule &module : model.modules())
        if (module.kind == ModelModule::Linear && names.size() < 12)
          names.push_back(module.name);
      return fail(place + ": target_modules names no module of the model; linear ones are " + llvm::join(names, ", ") +
                  (names.size() == 12 ? ", ..." : ""));
    }
    for (const std::string &name : config.modulesToSave)
      if (llvm::none_of(copied, [&](const std::string &module) { return isNamedOrIn(module, name); }))
        return fail(place + ": modules_to_save names '" + name + "', which the model does not have");
    if (config.start == AdapterStart::Given && !tensors)
      return fail(place + ": init_lora_weights is false, so tensors must be given: there is no "
                          "adapter_model.safetensors");
    if (!missing.empty())
      return fail(tensors->path() + ": lacks " + listText(missing, 4) + ", which the configuration asks for");
    std::vector<std::string> unread;
    if (tensors)
      for (const SafetensorsTensor &tensor : tensors->tensors())
        if (!used.contains(tensor.name))
          unread.push_back(tensor.name);
    if (!unread.empty())
      return fail(tensors->path() + ": has " + listText(unread, 4) +
                  ", for which the model has no place: is it an adapter of this model?");
    return success();
  }

  /// Of all-linear: the last parts of the names where these say which modules are meant, else whole names.
  std::vector<std::string> writtenTargets() const {
    auto last = [](StringRef name) { return name.substr(name.rfind('.') + 1); };
    llvm::StringSet<> others;
    for (const ModelModule &module : model.modules())
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
  ModelModules model;
  std::vector<std::string> &notes;
  AdapterConfig config;
  bool isInputFirst = false; ///< a target's weight is stored as (inputs, outputs)
  std::optional<SafetensorsFile> tensors;
  SmallVector<Attribute> entries;
  std::vector<std::string> chosen, copied, missing;
  std::vector<std::string> ofParameters; ///< what has adapters by target_parameters
  SmallVector<bool> isFound;             ///< for each name of target_parameters
  uint64_t trained = 0;                  ///< elements
  llvm::StringSet<> used;
};

} // namespace

LogicalResult attachAdapter(ModuleOp module, const CompileOptions &options, StringRef hfConfig, StringRef folder,
                            std::vector<std::string> &notes) {
  AdapterResolver resolver(module, options, hfConfig, folder, notes);
  if (failed(resolver.run()))
    return failure();
  notes.push_back(resolver.summary());
  return success();
}

} // namespace ztc::driver
