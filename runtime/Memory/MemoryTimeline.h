// How much memory is live at each step of each program, by class.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/Planner.h"
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// One step of a program.
struct MemoryMoment {
  std::array<uint64_t, kMemoryClassCount - 1> byClass{}; ///< live bytes, without gaps
};

/// The programs laid end to end, in the plan's order.
struct MemoryTimeline {
  struct Stretch {
    std::string program;
    uint32_t begin = 0; ///< its first moment
  };
  std::vector<Stretch> programs;
  std::vector<MemoryMoment> moments;
};

/// `memory` is the layout of `plan` for `shape`.
MemoryTimeline memoryTimeline(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory);

/// The end of a part of a slot's life: nothing after this step reads what the slot holds.
struct SlotEnd {
  uint32_t slot;    ///< one that has storage of its own
  uint32_t program; ///< index in the plan
  uint32_t step;    ///< of the program
};

/// All ends; persistent slots have none.
std::vector<SlotEnd> slotEnds(const plan::Plan &plan, const PlanShape &shape);

} // namespace ztc
