// Which slots lie in the memory spaces below the device's: --host-mem, --disk.
#pragma once
#include "compiler/Analysis/OffloadChoice.h"
#include "compiler/Driver/Options.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <vector>

namespace ztc::driver {

/// What may leave the device, in the order in which it does: optimizer states first, which a step needs once; then
/// masters; then parameters, which come before each use, frozen ones first, which are never written. A budget may
/// ask for more: then gradients, a bucket at a time, which move in each micro-step, and what blocks
/// keep for their backward, a block at a time, the first ones first.
struct OffloadItem {
  OffloadChoice::Share OffloadChoice::*kind;
  uint64_t bytes; ///< of a rank, in the shape where it is largest
};
std::vector<OffloadItem> offloadItems(const plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, bool hasBudget);

/// The host's memory where no option limits it, in bytes: more than any machine has.
constexpr uint64_t kAnyHostMemory = uint64_t(1) << 60;

/// Whether the options open a space below.
inline bool opensSpaces(const CompileOptions &options) {
  return options.hostMemory || !options.disk.empty();
}

/// Whether this target is the host's cores: `host` or one of its instruction sets.
bool isHostTarget(llvm::StringRef target);
/// Whether the plan has kernels for the host's cores.
bool hasHostTarget(const CompileOptions &options);

/// What updates on the host's cores take of its memory beside the items, at most: windows of a piece of parameters,
/// gradients and masters, and what all buckets read.
uint64_t updateWindowBytes(const plan::Plan &plan);

/// The first `count` items, in host memory as long as there is room, then on the disk; nullopt where they do not fit
/// there. `windowBytes`: above 0 updates are the host's, and take so much of its memory.
std::optional<OffloadChoice> placeFirst(llvm::ArrayRef<OffloadItem> items, size_t count, const CompileOptions &options,
                                        uint64_t windowBytes);

} // namespace ztc::driver
