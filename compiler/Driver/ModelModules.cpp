#include "compiler/Driver/ModelModules.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Adapters/WeightUses.h"
#include "runtime/Core/Json.h"
#include "runtime/Format/AdapterNames.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace ztc::driver {

/// What a family's checkpoints may leave out before the names of all but the head, by model_type.
static StringRef basePrefix(StringRef modelType) {
  return llvm::StringSwitch<StringRef>(modelType)
      .Cases({"gpt2", "gpt_neo", "gptj", "codegen", "bloom", "falcon", "mpt", "gpt_bigcode"}, "transformer")
      .Cases({"gpt_neox", "gpt_neox_japanese", "biogpt"}, modelType)
      .Default("model");
}

ModelModules::ModelModules(func::FuncOp forward, StringRef hfConfig) : forward(forward) {
  nlohmann::json config = parseJson(hfConfig.str());
  if (config.is_object() && config.contains("model_type") && config["model_type"].is_string()) {
    modelType = config["model_type"].get<std::string>();
    prefix = basePrefix(modelType).str() + ".";
  }
  isMultiModal = config.is_object() && config.contains("vision_config");
  if (forward)
    find();
}

std::string ModelModules::nameOf(StringRef stored, bool isHead) const {
  const std::string own = isHead ? stored.str() : moduleOfFamily(stored.str(), modelType);
  if (own != stored)
    return nameOf(own, false);
  // The head may have a name of its own; all else is the language model's.
  if (isMultiModal)
    return StringRef(languageModelNames((stored + ".").str()).back()).drop_back().str();
  if (prefix.empty() || isHead || anyHasPrefix || stored.starts_with(prefix))
    return stored.str();
  return prefix + stored.str();
}

/// Whether `use` is a table's, of a lookup of the model's input as it is.
static bool looksUpTokens(OpOperand &use) {
  auto lookup = dyn_cast<graph::EmbeddingOp>(use.getOwner());
  if (!lookup || lookup.getTable() != use.get())
    return false;
  Value indices = lookup.getIndices();
  while (isa_and_nonnull<graph::CastOp, graph::ReshapeOp>(indices.getDefiningOp()))
    indices = indices.getDefiningOp()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(indices);
  auto function = dyn_cast<func::FuncOp>(lookup->getParentOp());
  return argument && function && graph::roleOf(function, argument.getArgNumber()) == graph::Role::Tokens;
}

void ModelModules::find() {
  for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
    anyHasPrefix |= !prefix.empty() && graph::argString(forward, index, graph::kName).starts_with(prefix);
  BlockArgument head = adapters::headWeight(forward);
  llvm::StringMap<unsigned> byName;
  auto moduleOf = [&](StringRef stored, bool isHead) -> ModelModule & {
    auto [place, isNew] = byName.try_emplace(stored, found.size());
    if (isNew) {
      found.push_back({});
      found.back().name = nameOf(stored, isHead);
      found.back().renamed = moduleOfTransformers5(found.back().name, modelType);
      found.back().stored = stored.str();
    }
    return found[place->second];
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
    ModelModule &module = moduleOf(name, argument == head && !isTable);
    module.weight = argument;
    module.kind = isTable ? ModelModule::Embedding : isMatrix ? ModelModule::Linear : ModelModule::Other;
    module.isHead = argument == head && !isTable;
    module.isTied = isTied;
    module.isOfTokens = isTable && llvm::any_of(argument.getUses(), looksUpTokens);
    if (!isTied)
      continue;
    StringRef other = "lm_head";
    if (auto tied = forward.getArgAttrOfType<ArrayAttr>(index, graph::kTied); tied && !tied.empty())
      if (StringRef first = cast<StringAttr>(tied[0]).getValue(); first.consume_back(".weight"))
        other = first;
    module.otherName = (other + ".weight").str();
    ModelModule &second = moduleOf(other, true);
    second.weight = argument;
    second.kind = ModelModule::Linear;
    second.isHead = second.isTied = true;
  }
}

} // namespace ztc::driver
