#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Random.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace ztc {

std::string modelName(const plan::Plan &plan, const plan::Parameter &parameter) {
  std::string name = parameter.name().substr(kAdapterPrefix.size());
  if (name.find(".lora_") != std::string::npos || isTokenRows(parameter))
    return {};
  if (const size_t layer = name.find(".base_layer."); layer != std::string::npos)
    name.erase(layer, std::string_view(".base_layer").size());
  if (const auto config = parseJson(plan.model().hf_config()); config.is_object() && config.contains("model_type"))
    if (const nlohmann::json &type = config["model_type"]; type.is_string())
      name = storedOfFamily(name, type.get<std::string>());
  // A router may have another name in the checkpoint: that of the module in which its experts are.
  for (const std::string &stored : checkpointNames(name)) {
    const std::vector<std::string> renamed = routerNames(stored);
    const std::string block = stored.substr(0, stored.rfind(".gate.") + 1);
    const auto isInBlock = [&](const plan::Parameter &other) { return other.name().starts_with(block); };
    if (std::ranges::find(renamed, name) != renamed.end() && std::ranges::any_of(plan.parameters(), isInBlock))
      return stored;
  }
  return name;
}

ModelParameters modelParameters(const plan::Plan &plan) {
  ModelParameters model;
  for (const plan::Parameter &parameter : plan.parameters()) {
    if (isOfAdapter(plan, parameter))
      continue;
    model[parameter.name()] = &parameter;
    for (const std::string &tied : parameter.tied())
      model.emplace(tied, &parameter);
  }
  return model;
}

const plan::Parameter *findTarget(const ModelParameters &model, const std::string &name) {
  for (const std::string &stored : checkpointNames(name))
    if (const auto found = model.find(stored); found != model.end())
      return found->second;
  return nullptr;
}

bool isOutputLast(const plan::Plan &plan, const plan::Parameter &a, const plan::Parameter &weight) {
  if (a.name().ends_with(".lora_embedding_A"))
    return true;
  const auto &shape = checkpointShape(weight);
  if (shape.size() != 2 || shape[0] != shape[1])
    return shape[0] == a.shape(1);
  const auto json = parseJson(plan.adapter_config());
  return json.is_object() && json.value("fan_in_fan_out", nlohmann::json()) == nlohmann::json(true);
}

/// A random orthogonal matrix (rank, rank): normal numbers, row after row made orthogonal to those before.
static std::vector<double> orthogonalMatrix(uint64_t rank, uint64_t seed, uint64_t stream) {
  std::vector<double> q(rank * rank);
  for (uint64_t i = 0; i < q.size(); ++i)
    q[i] = normalAt(seed, stream, i);
  for (uint64_t row = 0; row < rank; ++row) {
    double *mine = &q[row * rank];
    for (int pass = 0; pass < 2; ++pass) // the second takes away what the first rounded
      for (uint64_t other = 0; other < row; ++other) {
        double dot = 0;
        for (uint64_t i = 0; i < rank; ++i)
          dot += mine[i] * q[other * rank + i];
        for (uint64_t i = 0; i < rank; ++i)
          mine[i] -= dot * q[other * rank + i];
      }
    double square = 0;
    for (uint64_t i = 0; i < rank; ++i)
      square += mine[i] * mine[i];
    for (uint64_t i = 0; i < rank; ++i)
      mine[i] /= std::sqrt(square);
  }
  return q;
}

static void fillOrthogonal(const plan::Parameter &parameter, uint64_t seed, uint64_t begin, uint64_t count,
                           float *out) {
  const bool isRows = parameter.source().start() == plan::WeightSource::ORTHOGONAL_ROWS;
  const uint64_t rank = static_cast<uint64_t>(parameter.source().range()), half = rank / 2;
  const std::string &name = parameter.name();
  const std::vector<double> q = orthogonalMatrix(rank, seed, hashName(name.substr(0, name.find(".lora_")) + ".lora"));
  const uint64_t columns = static_cast<uint64_t>(parameter.shape(1)), stream = hashName(name);
  for (uint64_t i = begin; i < begin + count; ++i) {
    const uint64_t row = i / columns, column = i % columns;
    const uint64_t feature = isRows ? column : row, place = isRows ? row : column;
    double sum = 0;
    for (uint64_t k = 0; k < half; ++k)
      sum += normalAt(seed, stream, feature * half + k) * q[(2 * k + (isRows ? 0 : 1)) * rank + place];
    out[i - begin] = static_cast<float>(sum / 10);
  }
}

void fillFresh(const plan::Parameter &parameter, uint64_t seed, uint64_t begin, uint64_t count, float *out,
               uint32_t threads) {
  const plan::WeightSource &source = parameter.source();
  const float range = static_cast<float>(source.range());
  const uint64_t stream = hashName(parameter.name());
  switch (source.start()) {
  case plan::WeightSource::UNIFORM:
    return fillUniform(out, count, range, seed, stream, begin);
  case plan::WeightSource::NORMAL:
    return fillNormal(out, count, range, seed, stream, begin, threads);
  case plan::WeightSource::ORTHOGONAL_ROWS:
  case plan::WeightSource::ORTHOGONAL_COLUMNS:
    return fillOrthogonal(parameter, seed, begin, count, out);
  case plan::WeightSource::ONE:
    std::fill_n(out, count, 1.0f);
    return;
  default:
    std::fill_n(out, count, 0.0f);
  }
}

} // namespace ztc
