// Kernels and library calls of a plan: how often each runs, what it moves and computes, who executes it.
#pragma once
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ztc::report {

/// Of one kernel, or of library calls that are equal.
struct KernelUse {
  std::string what, reason;
  int kernel = -1;                          ///< -1: a library call
  std::map<std::string, unsigned> launches; ///< by program
  uint64_t bytes = 0, flops = 0;            ///< of one micro-step and one update, all launches together
  std::vector<CallExecution> executions;    ///< of a library call: for the targets that the plan has
  std::set<std::string> calledBy;           ///< of a kernel: kinds of library calls
  uint64_t callBytes = 0, callFlops = 0;    ///< of a kernel: of these calls, which other kernels may share
};

struct KernelUses {
  std::vector<KernelUse> kernels; ///< by the plan's index
  std::vector<KernelUse> calls;   ///< in the order of the plan
};
KernelUses collectKernelUses(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory);

/// How much of a multiprocessor a kernel fills.
struct Occupancy {
  unsigned blocks;   ///< that it holds at once
  unsigned percent;  ///< of the threads that it could hold
  const char *limit; ///< what there is no more of: "registers", "shared memory", "threads", "blocks"
};
/// Nothing for hosts, for unknown architectures, and where the driver chooses the registers.
std::optional<Occupancy> occupancyOf(const plan::Kernel::Version &version);

} // namespace ztc::report
