#include "runtime/Checkpoint/FreshAdapter.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/FloatArrays.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/WeightChange.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

namespace {

/// A fresh tensor of the adapter; empty where it begins at zero.
std::vector<float> freshTensor(const plan::Parameter &parameter, const WeightOptions &options) {
  if (parameter.source().start() == plan::WeightSource::ZERO)
    return {};
  std::vector<float> values(uint64_t(parameter.shape(0) * parameter.shape(1)));
  fillFresh(parameter, options.seed, 0, values.size(), values.data(), options.threads);
  return values;
}

/// What is multiplied where the plan holds a weight in 16 bits.
ElementSource asStored(const plan::Parameter &weight, ElementSource full) {
  const std::optional<NarrowType> type = narrowDataType(weight.type());
  if (!type || weight.format() != plan::PLAIN)
    return full;
  return [=](uint64_t begin, uint64_t count, float *out) {
    ZTC_RETURN_IF_ERROR(full(begin, count, out));
    std::vector<uint16_t> stored(count);
    narrow(stored.data(), out, count, *type);
    widen(out, stored.data(), count, *type);
    return Status::ok();
  };
}

} // namespace

StatusOr<std::vector<float>> freshMagnitude(const plan::Plan &plan, const plan::Parameter &magnitude,
                                            const ModelSource &model, const WeightOptions &options) {
  const std::string prefix = magnitude.name().substr(0, magnitude.name().rfind(".lora_"));
  const std::string module = prefix.substr(kAdapterPrefix.size());
  const auto named = [&](const std::string &name) {
    const auto found = std::ranges::find(plan.parameters(), name, &plan::Parameter::name);
    return found == plan.parameters().end() ? nullptr : &*found;
  };
  const bool isTable = named(prefix + ".lora_embedding_A") != nullptr;
  const plan::Parameter *a = named(prefix + (isTable ? ".lora_embedding_A" : ".lora_A.weight")),
                        *b = named(prefix + (isTable ? ".lora_embedding_B" : ".lora_B.weight")),
                        *weight = findTarget(modelParameters(plan), module + ".weight");
  if (!a || !b || !weight || a->shape_size() != 2 || b->shape_size() != 2 || checkpointShape(*weight).size() != 2)
    return dataLoss(fmt::format("'{}' stands beside no weight of the plan", magnitude.name()));
  const auto &shape = checkpointShape(*weight);
  ZTC_ASSIGN_OR_RETURN(const AdapterConfig config, parseAdapterConfig(plan.adapter_config(), "the plan's adapter"));
  WeightChange change;
  change.a = freshTensor(*a, options);
  change.b = freshTensor(*b, options);
  change.rank = change.a.empty() || change.b.empty() ? 0 : uint64_t(a->shape(0));
  change.scale = float(config.scaleOf(module));
  change.isTransposed = isOutputLast(plan, *a, *weight);
  const auto columns = uint64_t(shape[1]), elements = uint64_t(shape[0]) * columns;
  if ((change.isTransposed ? columns : uint64_t(shape[0])) != uint64_t(magnitude.shape(0)))
    return dataLoss(
        fmt::format("'{}' has {} elements beside '{}'", magnitude.name(), magnitude.shape(0), weight->name()));
  ZTC_ASSIGN_OR_RETURN(const ElementSource full, model(*weight));
  return change.norms(asStored(*weight, full), elements, columns);
}

StatusOr<std::vector<float>> freshTokenRows(const plan::Plan &plan, const plan::Parameter &rows,
                                            const ModelSource &model) {
  const std::string module =
      rows.name().substr(kAdapterPrefix.size(), rows.name().size() - kAdapterPrefix.size() - kTokenRowsSuffix.size());
  const plan::Parameter *table = findTarget(modelParameters(plan), module + ".weight");
  ZTC_ASSIGN_OR_RETURN(const AdapterConfig config, parseAdapterConfig(plan.adapter_config(), "the plan's adapter"));
  const TokenRows *chosen = config.rowsOf(module);
  if (!table || !chosen || checkpointShape(*table).size() != 2 || rows.shape_size() != 2 ||
      rows.shape(0) != int64_t(chosen->rows.size()) || rows.shape(1) != checkpointShape(*table)[1])
    return dataLoss(fmt::format("'{}' are rows of no table of the plan", rows.name()));
  ZTC_ASSIGN_OR_RETURN(const ElementSource full, model(*table));
  const ElementSource stored = asStored(*table, full);
  const auto columns = uint64_t(rows.shape(1));
  std::vector<float> values(chosen->rows.size() * columns);
  for (size_t i = 0; i < chosen->rows.size(); ++i) {
    if (chosen->rows[i] >= checkpointShape(*table)[0])
      return dataLoss(fmt::format("'{}': '{}' has no row {}", rows.name(), table->name(), chosen->rows[i]));
    ZTC_RETURN_IF_ERROR(stored(uint64_t(chosen->rows[i]) * columns, columns, &values[i * columns]));
  }
  return values;
}

} // namespace ztc
