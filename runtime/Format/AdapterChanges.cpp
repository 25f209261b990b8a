#include "runtime/Format/AdapterChanges.h"
#include "runtime/Core/FloatArrays.h"
#include "runtime/Core/Json.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {

AdapterChanges::AdapterChanges(AdapterConfig config, SafetensorsFile file)
    : config_(std::move(config)), file_(std::move(file)) {
  for (const SafetensorsTensor &tensor : file_.tensors())
    if (const size_t dot = tensor.name.find('.', kAdapterPrefix.size()); tensor.name.starts_with(kAdapterPrefix))
      firstParts_.insert(tensor.name.substr(kAdapterPrefix.size(), dot + 1 - kAdapterPrefix.size()));
}

StatusOr<AdapterChanges> AdapterChanges::open(const std::string &folder) {
  const std::string path = folder + "/adapter_config.json";
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  ZTC_ASSIGN_OR_RETURN(AdapterConfig config, parseAdapterConfig(text, path));
  ZTC_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(folder + "/adapter_model.safetensors"));
  return AdapterChanges(std::move(config), std::move(file));
}

StatusOr<std::vector<float>> AdapterChanges::read(const std::string &name) {
  const SafetensorsTensor *tensor = file_.find(name);
  if (!tensor)
    return dataLoss(fmt::format("'{}' lacks '{}'", file_.path(), name));
  read_.insert(name);
  const std::span<const std::byte> data = file_.data(*tensor);
  std::vector<float> values;
  if (tensor->type == plan::F32) {
    values.resize(data.size() / sizeof(float));
    std::memcpy(values.data(), data.data(), data.size());
  } else if (const std::optional<NarrowType> type = narrowDataType(tensor->type)) {
    std::vector<uint16_t> narrow(data.size() / sizeof(uint16_t)); // the file's may not be aligned
    std::memcpy(narrow.data(), data.data(), data.size());
    values.resize(narrow.size());
    widen(values.data(), narrow.data(), narrow.size(), *type);
  } else if (tensor->type == plan::F64) {
    std::vector<double> wide(data.size() / sizeof(double));
    std::memcpy(wide.data(), data.data(), data.size());
    values.assign(wide.begin(), wide.end());
  } else {
    return dataLoss(fmt::format("'{}': '{}' has the type {}; F32, BF16, F16 and F64 can be merged", file_.path(), name,
                                tensor->typeName));
  }
  return values;
}

Status AdapterChanges::addFactors(WeightChange &change, const std::string &module, const std::vector<int64_t> &shape) {
  const std::string prefix = std::string(kAdapterPrefix) + module;
  const bool isTable = has(prefix + ".lora_embedding_A");
  const std::string first = prefix + (isTable ? ".lora_embedding_A" : ".lora_A.weight"),
                    second = prefix + (isTable ? ".lora_embedding_B" : ".lora_B.weight");
  ZTC_ASSIGN_OR_RETURN(change.a, read(first));
  ZTC_ASSIGN_OR_RETURN(change.b, read(second));
  change.rank = uint64_t(config_.rankOf(module));
  change.scale = float(config_.scaleOf(module));
  const uint64_t inputs = change.a.size() / change.rank, outputs = change.b.size() / change.rank;
  if (inputs * change.rank != change.a.size() || outputs * change.rank != change.b.size() || shape.size() != 2 ||
      uint64_t(shape[0]) * uint64_t(shape[1]) != inputs * outputs ||
      (uint64_t(shape[0]) != inputs && uint64_t(shape[0]) != outputs))
    return failedPrecondition(fmt::format("'{}': '{}' and '{}' are factors of {} outputs and {} inputs, the weight is "
                                          "[{}]",
                                          file_.path(), first, second, outputs, inputs, fmt::join(shape, ", ")));
  if (isTable) {
    change.isTransposed = true;
  } else if (inputs == outputs) {
    const auto json = parseJson(config_.text);
    change.isTransposed = json.value("fan_in_fan_out", nlohmann::json()) == nlohmann::json(true);
  } else {
    change.isTransposed = uint64_t(shape[0]) == inputs;
  }
  if (!config_.hasMagnitude)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(change.magnitude, read(prefix + ".lora_magnitude_vector"));
  return change.magnitude.size() == outputs
             ? Status::ok()
             : dataLoss(fmt::format("'{}': '{}.lora_magnitude_vector' has {} elements, the weight {} outputs",
                                    file_.path(), prefix, change.magnitude.size(), outputs));
}

Status AdapterChanges::addExpert(WeightChange &change, const ExpertPart &part, const std::vector<int64_t> &shape) {
  const std::string prefix = std::string(kAdapterPrefix) + config_.stackName(part.stack);
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> first, read(prefix + ".lora_A.weight"));
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> second, read(prefix + ".lora_B.weight"));
  const SafetensorsTensor &a = *file_.find(prefix + ".lora_A.weight");
  const auto rank = uint64_t(config_.rankOf(part.stack)), expert = uint64_t(part.expert);
  const uint64_t all = a.shape.size() == 2 ? uint64_t(a.shape[0]) : 0, experts = all / rank;
  if (shape.size() != 2 || experts * rank != all || expert >= experts || first.size() != all * uint64_t(shape[1]) ||
      second.size() != all * uint64_t(shape[0]) * (part.isHalf ? 2 : 1))
    return failedPrecondition(fmt::format("'{}': '{}' do not have the shapes of factors of rank {} for experts of [{}]",
                                          file_.path(), prefix, rank, fmt::join(shape, ", ")));
  const auto outputs = uint64_t(shape[0]), inputs = uint64_t(shape[1]), from = part.isSecond ? outputs : 0;
  change.rank = rank;
  change.scale = float(config_.scaleOf(part.stack));
  change.a.assign(first.begin() + int64_t(expert * rank * inputs),
                  first.begin() + int64_t((expert + 1) * rank * inputs));
  change.b.resize(outputs * rank);
  for (uint64_t output = 0; output < outputs; ++output)
    for (uint64_t k = 0; k < rank; ++k)
      change.b[output * rank + k] = second[(from + output) * all + k * experts + expert];
  return Status::ok();
}

void AdapterChanges::setModel(const std::string &configJson) {
  const auto config = parseJson(configJson);
  if (config.is_object() && config.contains("model_type") && config["model_type"].is_string())
    hasInputsFirst_ = hasInputsFirst(config["model_type"].get<std::string>());
}

Status AdapterChanges::addStack(WeightChange &change, const std::string &stack, const std::vector<int64_t> &shape) {
  const std::string prefix = std::string(kAdapterPrefix) + config_.stackName(stack);
  ZTC_ASSIGN_OR_RETURN(change.a, read(prefix + ".lora_A.weight"));
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> second, read(prefix + ".lora_B.weight"));
  const auto experts = uint64_t(shape[0]), first = uint64_t(shape[1]), last = uint64_t(shape[2]);
  const auto rank = uint64_t(config_.rankOf(stack)), all = experts * rank;
  const bool fits = change.a.size() == all * last && second.size() == all * first,
             fitsTransposed = change.a.size() == all * first && second.size() == all * last;
  if (!fits && !fitsTransposed)
    return failedPrecondition(fmt::format("'{}': '{}' do not have the shapes of factors of rank {} for experts of [{}]",
                                          file_.path(), prefix, rank, fmt::join(shape, ", ")));
  change.isTransposed = fitsTransposed && (!fits || hasInputsFirst_);
  change.rank = rank;
  change.experts = experts;
  change.scale = float(config_.scaleOf(stack));
  const uint64_t rows = change.isTransposed ? last : first; // of B
  change.b.resize(second.size());
  for (uint64_t expert = 0; expert < experts; ++expert)
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t k = 0; k < rank; ++k) // in PEFT's B the expert is the fastest
        change.b[(expert * rows + row) * rank + k] = second[row * all + k * experts + expert];
  return Status::ok();
}

Status AdapterChanges::addRows(WeightChange &change, const std::string &module, const std::vector<int64_t> &shape) {
  const std::string name = std::string(kAdapterPrefix) + module + std::string(kTokenRowsSuffix);
  ZTC_ASSIGN_OR_RETURN(change.rows, read(name));
  const TokenRows *chosen = config_.rowsOf(module);
  if (!chosen || shape.size() != 2 || change.rows.size() != chosen->rows.size() * uint64_t(shape[1]) ||
      std::ranges::any_of(chosen->rows, [&](int64_t row) { return row >= shape[0]; }))
    return dataLoss(fmt::format("'{}': '{}' are not the trained rows of a table of [{}]", file_.path(), name,
                                fmt::join(shape, ", ")));
  change.numbers = chosen->rows;
  return Status::ok();
}

Status AdapterChanges::collect(WeightChange &change, const std::string &name, const std::vector<int64_t> &shape) {
  const std::string prefix(kAdapterPrefix);
  const size_t dot = name.rfind('.');
  const std::string module = name.substr(0, dot), own = dot == std::string::npos ? "" : name.substr(dot + 1);
  for (const std::string &stored : {prefix + name, prefix + module + ".base_layer." + own})
    if (has(stored) && (own != "weight" || stored == prefix + name)) {
      ZTC_ASSIGN_OR_RETURN(change.whole, read(stored));
    }
  if (own == "bias" && has(prefix + module + ".lora_B.bias")) {
    ZTC_ASSIGN_OR_RETURN(change.added, read(prefix + module + ".lora_B.bias"));
    const auto scale = float(config_.scaleOf(module));
    std::ranges::for_each(change.added, [&](float &value) { value *= scale; });
  }
  if (shape.size() == 3)
    for (const std::string &stack : stacksOfTensor(name))
      if (config_.targetsParameter(stack) && has(prefix + config_.stackName(stack) + ".lora_A.weight"))
        return addStack(change, stack, shape);
  if (own != "weight")
    return Status::ok();
  if (has(prefix + module + ".lora_A.weight") || has(prefix + module + ".lora_embedding_A"))
    ZTC_RETURN_IF_ERROR(addFactors(change, module, shape));
  if (has(prefix + module + std::string(kTokenRowsSuffix)))
    ZTC_RETURN_IF_ERROR(addRows(change, module, shape));
  if (const std::optional<ExpertPart> part = expertPartOf(module); part && config_.targetsParameter(part->stack))
    ZTC_RETURN_IF_ERROR(addExpert(change, *part, shape));
  return Status::ok();
}

StatusOr<std::optional<WeightChange>> AdapterChanges::of(const std::string &name, const std::vector<int64_t> &shape) {
  WeightChange change;
  ZTC_RETURN_IF_ERROR(collect(change, name, shape));
  const auto isEmpty = [&] {
    return !change.rank && change.whole.empty() && change.added.empty() && change.numbers.empty();
  };
  for (auto first = firstParts_.begin(); isEmpty() && first != firstParts_.end(); ++first)
    ZTC_RETURN_IF_ERROR(collect(change, *first + name, shape));
  for (const std::vector<std::string> &others : {languageModelNames(name), routerNames(name), familyNames(name)})
    for (const std::string &other : others)
      if (isEmpty())
        ZTC_RETURN_IF_ERROR(collect(change, other, shape));
  uint64_t elements = 1;
  for (const int64_t size : shape)
    elements *= uint64_t(size);
  for (const std::vector<float> *values : {&change.whole, &change.added})
    if (!values->empty() && values->size() != elements)
      return failedPrecondition(fmt::format("'{}' has {} elements for '{}', which is [{}]", file_.path(),
                                            values->size(), name, fmt::join(shape, ", ")));
  return isEmpty() ? std::optional<WeightChange>() : std::optional(std::move(change));
}

std::vector<std::string> AdapterChanges::unread() const {
  std::vector<std::string> names;
  for (const SafetensorsTensor &tensor : file_.tensors())
    if (!read_.contains(tensor.name) && !isBesideFactors(tensor.name))
      names.push_back(tensor.name);
  return names;
}

} // namespace ztc
