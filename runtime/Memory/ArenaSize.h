// How large the device's arena is, for those who compare it and need no layout.
#pragma once
#include "runtime/Memory/Packer.h"
#include "runtime/Memory/Planner.h"

namespace ztc {

/// The arena of planMemory, found out as far as a comparison needs: most of planMemory's time is the search for a small
/// layout. What it needs of the plan it has taken when it begins.
class ArenaSize {
public:
  /// Fails where planMemory does.
  static StatusOr<ArenaSize> of(const plan::Plan &plan, const PlanShape &shape);

  /// In bytes; no layout takes less.
  uint64_t largestLiveBytes() const;
  /// planMemory's arenaBytes; or, where that is at most `enough`, any number from it up to `enough`, found sooner.
  uint64_t bytes(uint64_t enough = 0) const;

private:
  std::vector<PackItem> items_;
  uint32_t length_ = 0; ///< in moments
};

/// Of planMemory's layout the bytes of each slot, without offsets, the arena and the sums: no layout is looked for.
StatusOr<MemoryPlan> slotSizes(const plan::Plan &plan, const PlanShape &shape);

/// What lies in the device's arena all the time: no arena of these slots is smaller.
uint64_t persistentBytes(const plan::Plan &plan, const PlanShape &shape);

} // namespace ztc
