// What tests of generated kernels give them to work on.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <cstring>
#include <vector>

namespace ztc::test {

inline uint32_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<uint32_t>(value >> 32);
}

/// Reproducible contents: reals in (0.5, 1.5), small integers. A sum of positive numbers has no cancellation, a root
/// has an argument.
inline void fill(std::vector<char> &bytes, plan::DataType type, uint64_t seed) {
  for (size_t i = 0, step = dataTypeBytes(type); i + step <= bytes.size(); i += step) {
    const uint32_t random = mix(seed * 1000003 + i);
    const float real = 0.5f + static_cast<float>(random >> 8) / 16777216.0f;
    if (type == plan::F32)
      std::memcpy(&bytes[i], &real, 4);
    else if (type == plan::BF16)
      std::memcpy(&bytes[i], reinterpret_cast<const char *>(&real) + 2, 2);
    else if (type == plan::F16)
      bytes[i] = static_cast<char>(random), bytes[i + 1] = static_cast<char>(0x38 | (random >> 8 & 3));
    else
      bytes[i] = static_cast<char>(random & (type == plan::I1 ? 1 : 3));
  }
}

/// Fills the slots of a step's operands, but for what a library call only writes: workspaces are large.
inline Status giveOperands(const plan::Step &step, const plan::Plan &plan, const MemoryPlan &memory, Device &device,
                           const Arena &arena) {
  for (int i = 0; i < step.operands_size(); ++i) {
    const uint32_t slot = step.operands(i).slot();
    if (!step.has_launch() && step.operands(i).access() == plan::Operand::WRITE)
      continue;
    std::vector<char> bytes(memory.slots[slot].bytes);
    fill(bytes, plan.slots(int(slot)).type(), uint64_t(i));
    ZTC_RETURN_IF_ERROR(device.memory().upload(arena.base() + memory.slots[slot].offset, bytes.data(), bytes.size()));
  }
  return Status::ok();
}

} // namespace ztc::test
