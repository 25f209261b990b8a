// The only judge of what a valid plan is. Writers, readers and the plan dialect's verify pass ask it.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/Shards.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <optional>

namespace ztc {

/// An index that points at nothing.
inline constexpr uint32_t kAbsent = 0xffffffffu;

/// Bytes of one element; 0 for DATA_TYPE_UNSPECIFIED and unknown numbers. I1 takes one byte.
uint64_t dataTypeBytes(plan::DataType type);
/// Whether parameters and activations may be stored in this type and are computed with in f32: bf16, f16.
bool isNarrow(plan::DataType type);
/// "f32", "bf16", ...
const char *dataTypeName(plan::DataType type);
/// What most products of the plan multiply: bf16, f16 or f32, as its precision says.
plan::DataType productType(const plan::Plan &plan);

/// Elements of a shape, or nothing where a dimension is negative or the product exceeds 2^62.
template <typename Dimensions> std::optional<uint64_t> elementCount(const Dimensions &shape) {
  uint64_t count = 1;
  bool empty = false;
  for (const auto dimension : shape) {
    if (dimension < 0)
      return std::nullopt;
    if (dimension == 0) {
      empty = true;
      continue;
    }
    const auto extent = static_cast<uint64_t>(dimension);
    if (count > (uint64_t(1) << 62) / extent)
      return std::nullopt;
    count *= extent;
  }
  return empty ? 0 : count;
}

/// Whether kernels of this target (sm_90a, simt, x86-64-v3) run on a GPU, or on what stands in for one.
bool isGpuTarget(std::string_view target);

/// Bytes of a size form before alignment, or nothing where they exceed 2^62. `world` at least 1; `threads` 0: on a GPU.
std::optional<uint64_t> sizeFormBytes(const plan::SizeForm &size, uint64_t world, bool accumulating, uint64_t threads);

/// Ok, or DataLoss with the record and the fact: every index in range, operands inside their slots, tensors of library
/// calls inside their operands, kernels with versions and images, parameters inside their buckets without overlap, no
/// size that overflows, shards and collectives of the forms that plan.proto states, streams and events in order. Never
/// reads outside the message, whatever it holds.
Status validatePlan(const plan::Plan &plan);

} // namespace ztc
