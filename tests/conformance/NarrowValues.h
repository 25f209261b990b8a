// Slots of bf16 and f16.
#pragma once
#include "tests/conformance/StepRunner.h"
#include <vector>

namespace ztc::test {

/// A slot with these values in `type`.
inline uint32_t typedSlot(StepRunner &runner, const std::vector<float> &values, plan::DataType type) {
  const auto narrowType = narrowDataType(type);
  if (!narrowType)
    return runner.slot(values);
  std::vector<uint16_t> bits(values.size());
  narrow(bits.data(), values.data(), values.size(), *narrowType);
  return runner.slot(bits);
}

inline std::vector<float> readTyped(const StepRunner &runner, uint32_t slot, size_t count, plan::DataType type) {
  const auto narrowType = narrowDataType(type);
  if (!narrowType)
    return runner.read(slot, count);
  const std::vector<uint16_t> bits = runner.read<uint16_t>(slot, count);
  std::vector<float> values(count);
  widen(values.data(), bits.data(), count, *narrowType);
  return values;
}

/// What kernels for tensors of `type` have at the end of their names.
inline std::string gpuSuffix(plan::DataType type) {
  return type == plan::BF16 ? "_bf16" : type == plan::F16 ? "_f16" : "";
}

} // namespace ztc::test
