// Plans that train an adapter beside a frozen model: which parameters are the adapter's, and how they begin.
#pragma once
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <map>
#include <string>

namespace ztc {

/// Names of a PEFT folder's files.
inline constexpr const char *kAdapterStem = "adapter_model";
inline constexpr const char *kAdapterConfigName = "adapter_config.json";

inline bool trainsAdapter(const plan::Plan &plan) {
  return !plan.adapter_config().empty();
}

/// Whether a PEFT folder holds this parameter; all others are the frozen model's.
inline bool isOfAdapter(const plan::Plan &plan, const plan::Parameter &parameter) {
  return trainsAdapter(plan) && parameter.name().starts_with(kAdapterPrefix);
}

/// Whether these are the magnitudes of DoRA: fresh ones are norms of the weight that they stand beside, see
/// freshMagnitude().
inline bool isMagnitude(const plan::Parameter &parameter) {
  return parameter.name().ends_with(".lora_magnitude_vector");
}

/// Whether these are rows of a table (trainable_token_indices): fresh ones are the table's, see freshTokenRows().
inline bool isTokenRows(const plan::Parameter &parameter) {
  return parameter.name().ends_with(kTokenRowsSuffix);
}

/// The name, in the model's checkpoint, of what the adapter trains whole (a copy of a module, a bias); empty for what
/// changes a tensor.
std::string modelName(const plan::Plan &plan, const plan::Parameter &parameter);

/// The frozen model's parameters by all their names.
using ModelParameters = std::map<std::string, const plan::Parameter *>;
ModelParameters modelParameters(const plan::Plan &plan);

/// The parameter that PEFT calls `name`: checkpoints of some families leave out the first part. Null where there is
/// none.
const plan::Parameter *findTarget(const ModelParameters &model, const std::string &name);

/// Whether a weight has its outputs last, (inputs, outputs), as a table has, beside which `a`, the first factor,
/// stands. Of a square one the configuration's fan_in_fan_out says it.
bool isOutputLast(const plan::Plan &plan, const plan::Parameter &a, const plan::Parameter &weight);

/// Elements [begin, begin + count) of a parameter that begins fresh, as its source says: functions of seed, name and
/// index. Of orthogonal ones A is N Q1 / 10 and B is N' Q2 / 10, transposed where rows are asked for: N and N' normal
/// numbers, Q1 and Q2 the odd and even rows of one orthogonal matrix of the module.
void fillFresh(const plan::Parameter &parameter, uint64_t seed, uint64_t begin, uint64_t count, float *out,
               uint32_t threads);

} // namespace ztc
