#include "runtime/Checkpoint/Merge.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/RunParts.h"
#include "runtime/Format/AdapterChanges.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace ztc {

plan::Plan wholeModelPlan(const plan::Plan &plan) {
  plan::Plan whole;
  whole.set_precision(plan.precision());
  *whole.mutable_model() = plan.model();
  *whole.mutable_options() = plan.options();
  for (const plan::Parameter &parameter : plan.parameters()) {
    if (isOfAdapter(plan, parameter))
      continue;
    plan::Parameter &kept = *whole.add_parameters();
    kept = parameter;
    kept.set_format(plan::PLAIN);
    *kept.mutable_shape() = checkpointShape(parameter);
    kept.clear_quantized_shape();
    kept.clear_quantized_transposed();
  }
  // What an adapter trains itself is a tensor of the model under another name.
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::string name = isOfAdapter(plan, parameter) ? modelName(plan, parameter) : std::string();
    const auto isThere = [&](const plan::Parameter &other) { return other.name() == name; };
    if (name.empty() || std::ranges::any_of(whole.parameters(), isThere))
      continue;
    plan::Parameter &kept = *whole.add_parameters();
    kept = parameter;
    kept.set_name(name);
  }
  return whole;
}

namespace {

/// A tensor that the adapter changes, or has itself.
struct Changed {
  std::string name;
  const plan::Parameter *shape; ///< the parameter that has its shape
};

} // namespace

/// Which expert's module a weight of the model is.
static std::optional<ExpertPart> expertOf(const plan::Parameter &parameter) {
  constexpr std::string_view kWeight = ".weight";
  const std::string_view name = parameter.name();
  return name.ends_with(kWeight) ? expertPartOf(name.substr(0, name.size() - kWeight.size())) : std::nullopt;
}

/// What changes; fails where one tensor cannot hold it.
static StatusOr<std::vector<Changed>> changedTensors(const plan::Plan &plan) {
  ZTC_ASSIGN_OR_RETURN(const AdapterConfig config, parseAdapterConfig(plan.adapter_config(), "the plan's adapter"));
  const ModelParameters model = modelParameters(plan);
  std::set<std::string> trained; // what the adapter has itself: whole modules, biases
  for (const plan::Parameter &parameter : plan.parameters())
    if (isOfAdapter(plan, parameter))
      trained.insert(modelName(plan, parameter));
  std::vector<Changed> found;
  std::map<const plan::Parameter *, std::string> factorsOf; // weights that have some, and their first
  std::set<std::string> ofStacks;                           // factors that experts share
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::optional<ExpertPart> part = isOfAdapter(plan, parameter) ? std::nullopt : expertOf(parameter);
    if (!part || !config.targetsParameter(part->stack))
      continue;
    const std::string name = std::string(kAdapterPrefix) + config.stackName(part->stack) + ".lora_A.weight";
    const auto factor = std::ranges::find(plan.parameters(), name, &plan::Parameter::name);
    if (factor == plan.parameters().end())
      return failedPrecondition(fmt::format("the adapter has no '{}' for '{}'", name, parameter.name()));
    ofStacks.insert(name);
    found.push_back({parameter.name(), &parameter});
  }
  for (const plan::Parameter &factor : plan.parameters()) { // stacks that are one tensor
    constexpr std::string_view kFirst = ".lora_A.weight";
    if (!isOfAdapter(plan, factor) || !factor.name().ends_with(kFirst))
      continue;
    const std::string own =
        factor.name().substr(kAdapterPrefix.size(), factor.name().size() - kAdapterPrefix.size() - kFirst.size());
    for (const plan::Parameter &parameter : plan.parameters()) {
      if (isOfAdapter(plan, parameter) || parameter.shape_size() != 3)
        continue;
      const auto isOwn = [&](const std::string &stack) {
        const std::string module = config.stackName(stack);
        return config.targetsParameter(stack) && (own == module || own.ends_with("." + module));
      };
      if (std::ranges::any_of(stacksOfTensor(parameter.name()), isOwn)) {
        ofStacks.insert(factor.name());
        found.push_back({parameter.name(), &parameter});
      }
    }
  }
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::string &name = parameter.name();
    if (ofStacks.contains(name))
      continue;
    const size_t lora = isOfAdapter(plan, parameter) ? name.rfind(".lora_") : 0;
    const bool isFirst = name.ends_with(".lora_A.weight") || name.ends_with(".lora_embedding_A"),
               isBias = name.ends_with(".lora_B.bias");
    if (lora == 0 || (lora != std::string::npos && !isFirst && !isBias))
      continue; // B and magnitudes go with their A
    const bool isRows = isOfAdapter(plan, parameter) && isTokenRows(parameter);
    const std::string wanted =
        isRows ? name.substr(kAdapterPrefix.size(), name.size() - kAdapterPrefix.size() - kTokenRowsSuffix.size()) +
                     ".weight"
        : lora == std::string::npos
            ? modelName(plan, parameter)
            : name.substr(kAdapterPrefix.size(), lora - kAdapterPrefix.size()) + (isBias ? ".bias" : ".weight");
    const plan::Parameter *target = findTarget(model, wanted);
    if (target && !target->tied().empty() && !isRows) // rows are trained for both uses
      return failedPrecondition(
          fmt::format("'{}' and '{}' are one tensor, and the adapter changes one of its uses: PEFT's merge_and_unload "
                      "makes two of it",
                      target->name(), target->tied(0)));
    if (!target && (isFirst || isRows || (isBias && !trained.contains(wanted))))
      return failedPrecondition(fmt::format("the model has no '{}' that '{}' could be added to", wanted, name));
    if (target && isFirst && !factorsOf.try_emplace(target, name).second)
      return failedPrecondition(fmt::format("'{}' is a table of embeddings and the head too, and the adapter changes "
                                            "both: one tensor cannot hold that",
                                            target->name()));
    found.push_back(target ? Changed{target->name(), target} : Changed{wanted, &parameter});
  }
  return found;
}

Status checkMerge(const plan::Plan &plan, MergeInto into, const std::map<std::string, plan::DataType> &weightTypes,
                  bool hasWeights) {
  ZTC_RETURN_IF_ERROR(changedTensors(plan).status());
  for (const plan::Parameter &parameter : plan.parameters()) {
    const auto found = weightTypes.find(parameter.name());
    const plan::DataType type =
        hasWeights ? found == weightTypes.end() ? plan::F32 : found->second : parameter.source().type();
    const bool isDequantized = !hasWeights && parameter.source().dequantized(); // full numbers can be made of it
    const bool isInBits = parameter.format() != plan::PLAIN && !isDequantized &&
                          (type == plan::U8 || type == plan::DATA_TYPE_UNSPECIFIED);
    if (into == MergeInto::Original && isInBits && (hasWeights || !parameter.source().path().empty()))
      return lacksFullWeight(parameter);
  }
  return Status::ok();
}

Status MergedModel::collect(const plan::Plan &plan, const WeightOptions &weights) {
  for (const plan::Parameter &parameter : plan.parameters())
    if (!isOfAdapter(plan, parameter))
      model_[parameter.name()] = &parameter;
  ZTC_ASSIGN_OR_RETURN(AdapterChanges changes, AdapterChanges::open(weights.adapter));
  changes.setModel(plan.model().hf_config());
  ZTC_ASSIGN_OR_RETURN(const std::vector<Changed> changed, changedTensors(plan));
  for (const Changed &tensor : changed) {
    const auto &shape = checkpointShape(*tensor.shape);
    ZTC_ASSIGN_OR_RETURN(std::optional<WeightChange> change, changes.of(tensor.name, {shape.begin(), shape.end()}));
    if (!change)
      return dataLoss(fmt::format("'{}' has nothing for '{}'", changes.file().path(), tensor.name));
    changes_[tensor.name] = std::move(*change);
  }
  return Status::ok();
}

StatusOr<MergedModel> MergedModel::open(const plan::Plan &plan, const WeightOptions &weights, MergeInto into) {
  MergedModel merged;
  merged.threads_ = std::max(1u, weights.threads);
  ZTC_RETURN_IF_ERROR(merged.collect(plan, weights));
  ZTC_ASSIGN_OR_RETURN(merged.source_, openFrozenModel(plan, weights, into == MergeInto::Original));
  return StatusOr<MergedModel>(std::move(merged));
}

Status MergedModel::write(const PlannedFile &planned, const std::string &path) const {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::ReadWrite));
  std::vector<float> values(kChangedElements);
  for (const PlannedTensor &tensor : planned.tensors) {
    const auto changed = changes_.find(tensor.parameter->name());
    const WeightChange none, &change = changed == changes_.end() ? none : changed->second;
    const auto kept = model_.find(tensor.parameter->name());
    ElementSource elements;
    if (change.whole.empty()) {
      if (kept == model_.end())
        return internalError(fmt::format("'{}' is not a tensor of the model", tensor.parameter->name()));
      ZTC_ASSIGN_OR_RETURN(elements, source_(*kept->second));
    }
    const auto &shape = tensor.parameter->shape();
    const uint64_t columns = shape.empty() ? 1 : std::max<uint64_t>(1, uint64_t(shape[shape.size() - 1]));
    const uint64_t elementBytes = dataTypeBytes(tensor.type);
    ZTC_ASSIGN_OR_RETURN(const std::vector<float> factors, change.factors(elements, tensor.elements, columns));
    for (uint64_t begin = 0; begin < tensor.elements; begin += kChangedElements) {
      const uint64_t count = std::min(kChangedElements, tensor.elements - begin);
      if (elements)
        ZTC_RETURN_IF_ERROR(elements(begin, count, values.data()));
      else
        std::copy_n(change.whole.begin() + int64_t(begin), count, values.begin());
      const uint64_t part = (count + threads_ - 1) / threads_;
      runParts((count + part - 1) / part, [&](uint64_t index) {
        const uint64_t at = index * part;
        const uint64_t share = std::min(part, count - at);
        change.apply(columns, begin + at, share, &values[at]);
        if (!factors.empty())
          change.multiply(factors, columns, begin + at, share, &values[at]);
      });
      if (const std::optional<NarrowType> narrowType = narrowDataType(tensor.type))
        narrow(reinterpret_cast<uint16_t *>(values.data()), values.data(), count, *narrowType);
      ZTC_RETURN_IF_ERROR(file.writeAt(tensor.fileOffset + begin * elementBytes, values.data(), count * elementBytes));
    }
  }
  return file.sync();
}

} // namespace ztc
