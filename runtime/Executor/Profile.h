// Where the time of a training step goes: the executor's counts as a table.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Executor/Executor.h"
#include <string>
#include <vector>

namespace ztc {

/// What a profile is made of.
struct ProfileSource {
  const plan::Plan &plan;
  const MemoryPlan &memory;
  PlanShape shape;
  const std::vector<ProgramStatistics> &statistics;
  DeviceLimits limits;
  uint64_t steps = 0;     ///< optimizer steps that were counted
  double seconds = 0;     ///< their wall time, all together
  bool everyStep = false; ///< one line per step of the plan, in order, not per kernel and call
};

/// The numbers of a profile that programs want.
struct ProfileSummary {
  double stepSeconds = 0;        ///< wall time of one optimizer step
  double bestSeconds = 0;        ///< its steps' fastest executions, added up
  double accounted = 0;          ///< share of it that steps of the plan took
  double productFlops = 0;       ///< per optimizer step: matrix products, attention, head
  double matmulBoundSeconds = 0; ///< what these take at the measured rate; 0 where that is unknown
};

ProfileSummary summarizeProfile(const ProfileSource &source);

/// One kernel or library call in one optimizer step, all its executions together.
struct ProfileRow {
  std::string name;
  double calls = 0;
  double seconds = 0;
  double bytes = 0; ///< operands once each
  double flops = 0;
  bool isProduct = false; ///< measured against the rate of matrix products too
};
/// The longest first.
std::vector<ProfileRow> profileRows(const ProfileSource &source);

/// Two tables, by kind and by kernel or call (or by step), and the share of the matrix products at full rate. Only
/// programs microstep and update.
std::string profileText(const ProfileSource &source);

} // namespace ztc
