// Which pass of a plugin is running, for messages: what goes wrong in it is said with its name.
#pragma once
#include "compiler/Driver/Plugin.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace ztc::driver {

/// Notes the passes of `phase` as they begin and end. A signal that ends the program in a plugin's pass (SIGSEGV,
/// SIGABRT, ...) is said with the names of plugin, pass and phase before the program ends.
std::unique_ptr<mlir::PassInstrumentation> notePasses(const PhaseHooks &hooks, Phase phase);

/// "pass 'swap' of plugin swapper in phase fuse"; "" where no plugin's pass is running.
const std::string &runningPass();

} // namespace ztc::driver
