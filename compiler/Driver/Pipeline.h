// Which passes make a phase.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"

namespace ztc::driver {

/// Called in the middle of phases, to add passes there.
struct WithinPhases {
  std::function<void(mlir::OpPassManager &)> afterLoss =
      {};                         ///< in `backward`: @eval has come, nothing is differentiated
  AfterKernels afterKernels = {}; ///< in `codegen`
};

/// Adds the passes of `phase`, in order, to a module pass manager.
void addPhase(Phase phase, mlir::OpPassManager &pm, const CompileOptions &options, const WithinPhases &within = {});

/// Adds the passes of phase `plan` that follow the conversion: they work on the plan, and they alone are told what lies
/// below the device.
void addPlanEdits(mlir::OpPassManager &pm, const CompileOptions &options);

/// Adds the pass that checks the post-condition of `phase`.
void addPhaseVerifier(Phase phase, mlir::OpPassManager &pm);

} // namespace ztc::driver
