// What would help where no choice of recomputation, and of what lies below the device, fits into --mem.
#pragma once
#include "compiler/Driver/Options.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc::driver {

/// Measures the same model with more memory below the device, with a smaller batch or shorter rows, with higher ZeRO
/// stages and on more ranks, each with everything computed again that saves memory and with what the options' spaces
/// below the device have room for, and prints what it would need on the device and whether that fits. A line each.
void printWhatWouldHelp(llvm::raw_ostream &out, const CompileOptions &options);

} // namespace ztc::driver
