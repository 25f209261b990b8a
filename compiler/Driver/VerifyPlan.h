// The last net of `ztc compile --verify`: the small form's plan runs, and what it computes is held against the
// interpreter.
#pragma once
#include "compiler/Support/Formats.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Format/plan.pb.h"
#include <string>
#include <vector>

namespace ztc::driver {

struct PlanReport {
  std::string wrong;             ///< what a run computed otherwise; empty: nothing
  std::vector<std::string> gaps; ///< what could not be run or compared, each with the reason
  unsigned runs = 0;             ///< numbers of ranks on which two updates were held
  unsigned gpuRuns = 0;          ///< the same, with kernels for GPUs
};

/// The folder with the engine that executes kernels for GPUs on this processor, and with what stands for NVIDIA's
/// libraries there (tests/standin); "" where they are not installed.
std::string standInFolder();

/// Writes `plan` and runs it in a child `ztc-run`, the one beside this program, for two updates on 1 and on 2 ranks,
/// with random weights and rows and with --poison: what no step may read any more is not a number there. Losses, the
/// first step's gradients and the weights after both updates are held against `reference`, the module after phase
/// `backward`, interpreted in f64; `precision`, in which the plan rounds, says how far they may be apart. `withGpus`:
/// the same on so many GPUs, for which the engine of standInFolder() stands; the plan has an image for the target simt
/// then.
PlanReport verifyPlan(const plan::Plan &plan, mlir::ModuleOp reference, StoragePrecision precision, bool withGpus);

} // namespace ztc::driver
