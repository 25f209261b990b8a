// Which slots lie in the memory spaces below the device's: --host-mem, --disk.
#pragma once
#include "compiler/Analysis/OffloadChoice.h"
#include "compiler/Driver/Options.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <vector>

namespace ztc::driver {

/// What may leave the device, in the order in which it does: optimizer states first, which a step needs once; then
/// masters; then parameters that are gathered before each use, frozen ones first, which are never written.
struct OffloadItem {
  OffloadChoice::Share OffloadChoice::*kind;
  uint64_t bytes; ///< of a rank, in the shape where it is largest
};
std::vector<OffloadItem> offloadItems(const plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes);

/// Whether the options open a space below.
inline bool opensSpaces(const CompileOptions &options) {
  return options.hostMemory || !options.disk.empty();
}

/// The first `count` items, in host memory as long as there is room, then on the disk; nullopt where they do not fit
/// there.
std::optional<OffloadChoice> placeFirst(llvm::ArrayRef<OffloadItem> items, size_t count, const CompileOptions &options);

} // namespace ztc::driver
