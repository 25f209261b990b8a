// The memory planner: one layout, computed by one library inside `ztc compile`, `ztc memory` and `ztc-run`.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// What the sizes of a plan depend on.
struct PlanShape {
  uint32_t world = 1;      ///< W, ranks
  uint32_t accumulate = 1; ///< M, micro-steps per optimizer step
  uint32_t threads = 1;    ///< T, host worker threads per rank; 0: on a GPU
};

/// "8 ranks, 4 micro-steps a step and 2 threads", or "... and a GPU each".
std::string shapeText(const PlanShape &shape);

/// Where a slot lies in the arena of its space, in bytes. Slots of zero bytes have offset 0; a slot that shares another
/// one's storage (same_as_at_one_rank where W = 1, same_as_if_accumulating where M > 1) begins where that one does, and
/// only that one counts.
struct SlotPlacement {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Classes of the report: the plan's slot classes in their order, then `unused` (gaps at the peak).
inline constexpr size_t kMemoryClassCount = 10;
/// Names as they stand in logs and JSON: parameters, gathered, gradients, optimizer, activations, workspace,
/// communication, io, cache, unused.
extern const std::array<const char *, kMemoryClassCount> kMemoryClassNames;

/// What lies in one of the spaces below the device's: the same slots all the time.
struct LowerSpacePlan {
  uint64_t bytes = 0;                                ///< what is reserved, to the byte
  std::array<uint64_t, kMemoryClassCount> byClass{}; ///< sums to `bytes`
};

/// The layout of one rank's arenas: that of the device, and those of the spaces below.
struct MemoryPlan {
  uint64_t arenaBytes = 0;                           ///< what is allocated: the peak, to the byte
  uint64_t largestLiveBytes = 0;                     ///< lower bound: the largest sum of live slots at one moment
  std::vector<SlotPlacement> slots;                  ///< by slot index
  std::array<uint64_t, kMemoryClassCount> byClass{}; ///< at the peak; sums to arenaBytes
  std::vector<uint32_t> liveAtPeak;                  ///< slots that the peak consists of, by index
  std::string peakProgram;                           ///< where the peak is
  uint32_t peakStep = 0;
  LowerSpacePlan host; ///< page-locked memory (of a run on the host: memory beside the arena)
  LowerSpacePlan disk; ///< one file
};

/// Bytes of a size form, rounded up to kArenaAlignment; 0 where they overflow (planMemory reports that).
uint64_t sizeBytes(const plan::SizeForm &size, const PlanShape &shape);
inline constexpr uint64_t kArenaAlignment = 256;
/// What slots on the disk begin and end at: the block of any disk. Where a plan has such slots those of the device are
/// aligned to what direct transfers ask of memory.
inline constexpr uint64_t kDiskAlignment = 4096;
inline constexpr uint64_t kDirectMemoryAlignment = 512;

/// Lays out all slots. Deterministic: equal inputs give equal offsets on every machine. Fails where a size overflows.
StatusOr<MemoryPlan> planMemory(const plan::Plan &plan, const PlanShape &shape);

} // namespace ztc
