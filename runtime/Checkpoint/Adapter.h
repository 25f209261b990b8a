// Plans that train an adapter beside a frozen model: which parameters are the adapter's, and how they begin.
#pragma once
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>

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

/// The model's name of what the adapter trains whole (a copy of a module, a bias); empty for A and B.
std::string modelName(const plan::Parameter &parameter);

/// Elements [begin, begin + count) of a parameter that begins fresh, as its source says: functions of seed, name and
/// index. Of orthogonal ones A is N Q1 / 10 and B is N' Q2 / 10, transposed where rows are asked for: N and N' normal
/// numbers, Q1 and Q2 the odd and even rows of one orthogonal matrix of the module.
void fillFresh(const plan::Parameter &parameter, uint64_t seed, uint64_t begin, uint64_t count, float *out,
               uint32_t threads);

} // namespace ztc
