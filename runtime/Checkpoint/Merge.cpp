#include "runtime/Checkpoint/Merge.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/RunParts.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace ztc {

/// Of one tensor that are made at a time; a multiple of kNf4Block.
static constexpr uint64_t kMergedElements = uint64_t(1) << 18;

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
  }
  // What an adapter trains itself is a tensor of the model under another name.
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::string name = isOfAdapter(plan, parameter) ? modelName(parameter) : std::string();
    const auto isThere = [&](const plan::Parameter &other) { return other.name() == name; };
    if (name.empty() || std::ranges::any_of(whole.parameters(), isThere))
      continue;
    plan::Parameter &kept = *whole.add_parameters();
    kept = parameter;
    kept.set_name(name);
  }
  return whole;
}

/// All of a tensor of the adapter.
static StatusOr<std::vector<float>> readWhole(const SafetensorsFile &file, const std::string &name) {
  const SafetensorsTensor *tensor = file.find(name);
  if (!tensor || !isLoadable(tensor->type))
    return dataLoss(fmt::format("'{}' lacks '{}'", file.path(), name));
  std::vector<float> values(tensor->bytes / dataTypeBytes(tensor->type));
  readElements({file.data(*tensor), tensor->type, false, 0, 0}, 0, values.size(), values.data());
  return values;
}

/// The model's parameter of a module that PEFT names: checkpoints of some families leave out the first part.
static const plan::Parameter *findTarget(const std::map<std::string, const plan::Parameter *> &model,
                                         const std::string &name) {
  if (const auto found = model.find(name); found != model.end())
    return found->second;
  const auto found = model.find(name.substr(name.find('.') + 1));
  return found == model.end() ? nullptr : found->second;
}

Status MergedModel::addFactors(const plan::Parameter &a, const plan::Parameter &target, const SafetensorsFile &file,
                               const AdapterConfig &config, bool prefersTransposed) {
  const bool isTable = a.name().ends_with(".lora_embedding_A");
  const std::string prefix = a.name().substr(0, a.name().rfind(".lora_"));
  const std::string module = prefix.substr(kAdapterPrefix.size());
  Change &change = changes_[target.name()];
  if (change.rank)
    return failedPrecondition(fmt::format("'{}' is a table of embeddings and the head too, and the adapter changes "
                                          "both: one tensor cannot hold that",
                                          target.name()));
  change.rank = uint64_t(a.shape(0));
  change.scale = float(config.scaleOf(module));
  ZTC_ASSIGN_OR_RETURN(change.a, readWhole(file, a.name()));
  ZTC_ASSIGN_OR_RETURN(change.b, readWhole(file, prefix + (isTable ? ".lora_embedding_B" : ".lora_B.weight")));
  const uint64_t outputs = change.b.size() / change.rank, inputs = uint64_t(a.shape(1));
  const auto &shape = checkpointShape(target);
  if (shape.size() != 2 || uint64_t(shape[0] * shape[1]) != inputs * outputs)
    return failedPrecondition(
        fmt::format("'{}' is not a matrix of {} outputs and {} inputs", target.name(), outputs, inputs));
  change.isTransposed = isTable || (inputs == outputs ? prefersTransposed : uint64_t(shape[0]) == inputs);
  return Status::ok();
}

namespace {

/// A tensor of the adapter, and what of the model it changes.
struct Contribution {
  enum Kind { Factors, Bias, Whole } kind;
  const plan::Parameter *adapter;
  const plan::Parameter *target; ///< null: the adapter has that tensor itself
  std::string name;              ///< of the changed tensor
};

} // namespace

/// What changes what; fails where one tensor cannot hold it.
static StatusOr<std::vector<Contribution>> contributionsOf(const plan::Plan &plan) {
  std::map<std::string, const plan::Parameter *> model; // by all its names
  std::set<std::string> trained;                        // what the adapter has itself: whole modules, biases
  for (const plan::Parameter &parameter : plan.parameters()) {
    if (isOfAdapter(plan, parameter)) {
      trained.insert(modelName(parameter));
      continue;
    }
    model[parameter.name()] = &parameter;
    for (const std::string &tied : parameter.tied())
      model.emplace(tied, &parameter);
  }
  std::vector<Contribution> found;
  for (const plan::Parameter &parameter : plan.parameters()) {
    const std::string &name = parameter.name();
    const size_t lora = isOfAdapter(plan, parameter) ? name.rfind(".lora_") : 0;
    const bool isFirst = name.ends_with(".lora_A.weight") || name.ends_with(".lora_embedding_A"),
               isBias = name.ends_with(".lora_B.bias");
    if (lora == 0 || (lora != std::string::npos && !isFirst && !isBias))
      continue; // B goes with its A
    const std::string wanted =
        lora == std::string::npos
            ? modelName(parameter)
            : name.substr(kAdapterPrefix.size(), lora - kAdapterPrefix.size()) + (isBias ? ".bias" : ".weight");
    const plan::Parameter *target = findTarget(model, wanted);
    if (target && !target->tied().empty())
      return failedPrecondition(
          fmt::format("'{}' and '{}' are one tensor, and the adapter changes one of its uses: PEFT's merge_and_unload "
                      "makes two of it",
                      target->name(), target->tied(0)));
    if (!target && (isFirst || (isBias && !trained.contains(wanted))))
      return failedPrecondition(fmt::format("the model has no '{}' that '{}' could be added to", wanted, name));
    found.push_back({isFirst  ? Contribution::Factors
                     : isBias ? Contribution::Bias
                              : Contribution::Whole,
                     &parameter, target, target ? target->name() : wanted});
  }
  return found;
}

Status checkMerge(const plan::Plan &plan, MergeInto into, const std::map<std::string, plan::DataType> &weightTypes,
                  bool hasWeights) {
  ZTC_RETURN_IF_ERROR(contributionsOf(plan).status());
  for (const plan::Parameter &parameter : plan.parameters()) {
    const auto found = weightTypes.find(parameter.name());
    const plan::DataType type =
        hasWeights ? found == weightTypes.end() ? plan::F32 : found->second : parameter.source().type();
    const bool isInBits =
        parameter.format() != plan::PLAIN && (type == plan::U8 || type == plan::DATA_TYPE_UNSPECIFIED);
    if (into == MergeInto::Original && isInBits && (hasWeights || !parameter.source().path().empty()))
      return lacksFullWeight(parameter);
  }
  return Status::ok();
}

Status MergedModel::collect(const plan::Plan &plan, const WeightOptions &weights) {
  ZTC_ASSIGN_OR_RETURN(const AdapterConfig config, parseAdapterConfig(plan.adapter_config(), "the plan's adapter"));
  const auto json = parseJson(plan.adapter_config());
  const bool prefersTransposed =
      json.is_object() && json.value("fan_in_fan_out", nlohmann::json()) == nlohmann::json(true);
  ZTC_ASSIGN_OR_RETURN(const SafetensorsFile file,
                       SafetensorsFile::open(weights.adapter + "/" + kAdapterStem + ".safetensors"));
  for (const plan::Parameter &parameter : plan.parameters())
    if (!isOfAdapter(plan, parameter))
      model_[parameter.name()] = &parameter;
  ZTC_ASSIGN_OR_RETURN(const std::vector<Contribution> contributions, contributionsOf(plan));
  for (const Contribution &one : contributions) {
    if (one.kind == Contribution::Factors) {
      ZTC_RETURN_IF_ERROR(addFactors(*one.adapter, *one.target, file, config, prefersTransposed));
      continue;
    }
    ZTC_ASSIGN_OR_RETURN(std::vector<float> values, readWhole(file, one.adapter->name()));
    if (one.kind == Contribution::Bias) {
      const std::string &name = one.adapter->name();
      const std::string module = name.substr(kAdapterPrefix.size(), name.rfind(".lora_") - kAdapterPrefix.size());
      const auto scale = float(config.scaleOf(module));
      std::ranges::for_each(values, [&](float &value) { value *= scale; });
    }
    Change &change = changes_[one.name];
    (one.kind == Contribution::Bias ? change.added : change.whole) = std::move(values);
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

/// Elements [begin, begin + count) of a row-major matrix of so many columns.
void MergedModel::apply(const Change &change, uint64_t columns, uint64_t begin, uint64_t count, float *values) {
  if (!change.added.empty())
    for (uint64_t i = 0; i < count; ++i)
      values[i] += change.added[begin + i];
  if (!change.rank)
    return;
  const uint64_t rank = change.rank;
  // Of W (outputs, inputs) row o is B's row o times A; of its transpose row i is A's column i times B.
  const std::vector<float> &rows = change.isTransposed ? change.a : change.b;
  const uint64_t inputs = change.isTransposed ? change.a.size() / rank : columns;
  std::vector<float> sum;
  for (uint64_t at = begin; at < begin + count;) {
    const uint64_t row = at / columns, first = at % columns, last = std::min(columns, first + begin + count - at);
    sum.assign(last - first, 0.0f);
    for (uint64_t k = 0; k < rank; ++k) {
      const float factor = change.isTransposed ? rows[k * inputs + row] : rows[row * rank + k];
      const float *other = change.isTransposed ? change.b.data() + k : change.a.data() + k * inputs;
      const uint64_t stride = change.isTransposed ? rank : 1;
      for (uint64_t i = first; i < last; ++i)
        sum[i - first] += factor * other[i * stride];
    }
    float *out = values + (at - begin);
    for (uint64_t i = 0; i < last - first; ++i)
      out[i] += change.scale * sum[i];
    at += last - first;
  }
}

Status MergedModel::write(const PlannedFile &planned, const std::string &path) const {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::ReadWrite));
  std::vector<float> values(kMergedElements);
  for (const PlannedTensor &tensor : planned.tensors) {
    const auto changed = changes_.find(tensor.parameter->name());
    const Change none, &change = changed == changes_.end() ? none : changed->second;
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
    for (uint64_t begin = 0; begin < tensor.elements; begin += kMergedElements) {
      const uint64_t count = std::min(kMergedElements, tensor.elements - begin);
      if (elements)
        ZTC_RETURN_IF_ERROR(elements(begin, count, values.data()));
      else
        std::copy_n(change.whole.begin() + int64_t(begin), count, values.begin());
      const uint64_t part = (count + threads_ - 1) / threads_;
      runParts((count + part - 1) / part, [&](uint64_t index) {
        const uint64_t at = index * part;
        apply(change, columns, begin + at, std::min(part, count - at), &values[at]);
      });
      if (const std::optional<NarrowType> narrowType = narrowDataType(tensor.type))
        narrow(reinterpret_cast<uint16_t *>(values.data()), values.data(), count, *narrowType);
      ZTC_RETURN_IF_ERROR(file.writeAt(tensor.fileOffset + begin * elementBytes, values.data(), count * elementBytes));
    }
  }
  return file.sync();
}

} // namespace ztc
