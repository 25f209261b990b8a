// A run of a small plan, without a device: what checkpoints are made of.
#pragma once
#include "Scratch.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Core/File.h"
#include "runtime/Format/PlanValidator.h"
#include <memory>
#include <string>
#include <vector>

namespace ztc::test {

/// A small plan with memory for each of its slots.
struct TinyRun {
  explicit TinyRun(plan::Plan given = smallPlan()) : plan(std::move(given)) {
    for (const plan::Slot &slot : plan.slots()) {
      slots.emplace_back(slot.size().elements(), -1.0f);
      bases.push_back(reinterpret_cast<std::byte *>(slots.back().data()));
    }
    memory = std::make_unique<HostStateMemory>(bases);
  }
  StateContext context() { return {plan, *memory, staging}; }
  /// Different numbers everywhere.
  void fill(float seed) {
    for (size_t s = 0; s < slots.size(); ++s)
      for (size_t i = 0; i < slots[s].size(); ++i)
        slots[s][i] = seed + static_cast<float>(s) * 1000 + static_cast<float>(i) / 7;
  }
  std::vector<float> values(const std::string &name, size_t kind = 0) const {
    for (const plan::Parameter &parameter : plan.parameters())
      if (parameter.name() == name) {
        const plan::Bucket &bucket = plan.buckets(static_cast<int>(parameter.bucket()));
        const uint32_t slot[] = {bucket.parameter_slot(), stateSlot(bucket, 0), stateSlot(bucket, 1),
                                 bucket.gradient_slot()};
        const auto begin = slots[slot[kind]].begin() + static_cast<ptrdiff_t>(parameter.offset());
        return {begin, begin + static_cast<ptrdiff_t>(*elementCount(parameter.shape()))};
      }
    return {};
  }

  plan::Plan plan;
  std::vector<std::vector<float>> slots;
  std::vector<std::byte *> bases;
  std::unique_ptr<HostStateMemory> memory;
  std::vector<std::byte> staging = std::vector<std::byte>(kMinimumStagingBytes);
};

inline std::vector<std::string> names(const std::string &folder) {
  return *listFolder(folder);
}

inline TrainerState stateAt(uint64_t step) {
  TrainerState state;
  state.step = step;
  state.adamCount = step - 1;
  state.cursor = {2, 17};
  state.globalBatch = 8;
  state.seed = 1ull << 63;
  state.lossScale = 65536;
  state.fp8Maxima = {{"layers.0.weight.cotangent", 0.0078125f}, {"layers.0.weight.input", 3.5f}};
  state.environment["isa"] = "x86-64-v3";
  return state;
}

} // namespace ztc::test
