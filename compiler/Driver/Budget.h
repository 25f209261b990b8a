// What would help where no choice of recomputation fits into --mem.
#pragma once
#include "compiler/Driver/Options.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc::driver {

/// Measures the same model with a smaller batch or shorter rows, with higher ZeRO stages and on more ranks, each with
/// everything computed again that saves memory, and prints what it would need and whether that fits. A line each.
void printWhatWouldHelp(llvm::raw_ostream &out, const CompileOptions &options);

} // namespace ztc::driver
