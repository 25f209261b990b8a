// Which passes make a phase.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"

namespace ztc {

/// Adds the passes of `phase`, in order, to a module pass manager.
void addPhase(Phase phase, mlir::OpPassManager &pm, const CompileOptions &options, AfterKernels after = {});

/// Adds the pass that checks the post-condition of `phase`.
void addPhaseVerifier(Phase phase, mlir::OpPassManager &pm);

} // namespace ztc
