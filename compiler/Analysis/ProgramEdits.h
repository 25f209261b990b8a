// Changes to the steps of a plan's programs, for what is decided after a plan was built.
#pragma once
#include "runtime/Format/plan.pb.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <string_view>

namespace ztc {

/// The plan's program of this name; null where it has none.
plan::Program *programOf(plan::Plan &plan, std::string_view name);
const plan::Program *programOf(const plan::Plan &plan, std::string_view name);

/// Removes steps, by index; where one that is left names a slot of `instead`, it names the slot that stands there.
void dropSteps(plan::Program &program, const llvm::DenseSet<int> &dropped,
               const llvm::DenseMap<uint32_t, uint32_t> &instead);

} // namespace ztc
