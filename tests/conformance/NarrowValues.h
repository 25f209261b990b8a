// Values that tensors of bf16 and f16 can hold.
#pragma once
#include "runtime/Format/NarrowDataType.h"
#include "tests/conformance/StepRunner.h"
#include <vector>

namespace ztc::test {

/// Rounds each value to what `type` holds; f32 changes nothing.
inline void roundTo(std::vector<float> &values, plan::DataType type) {
  if (const auto narrowType = narrowDataType(type)) {
    std::vector<uint16_t> bits(values.size());
    narrow(bits.data(), values.data(), values.size(), *narrowType);
    widen(values.data(), bits.data(), values.size(), *narrowType);
  }
}

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

/// Half a unit in the last place of the smallest value with its exponent, relative: what rounding once may cost.
inline double roundingError(plan::DataType type) {
  return type == plan::BF16 ? 0x1p-8 : type == plan::F16 ? 0x1p-11 : 0;
}

} // namespace ztc::test
