// What the options of a command mean together and on this machine, settled before the command runs.
#pragma once
#include "compiler/Driver/Options.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <string>

namespace ztc::driver {

/// What `main` reads of the environment.
struct Environment {
  CudaLibraryPaths cuda;   ///< where the GPUs' driver is looked for
  std::string kernelCache; ///< ZTC_KERNEL_CACHE: a folder, "none" or ""
  std::string kept;        ///< the user's folder for what ztc keeps between commands; "" where there is none
};

/// Targets where --target names none: the host and the GPUs that are here.
void chooseTargets(CompileOptions &o, const Environment &outside);

/// Settles where machine code is kept: where --kernel-cache or ZTC_KERNEL_CACHE says, else below `Environment::kept` if
/// that can be written to. Returns what is wrong with what was said, one sentence; "" if nothing is.
std::string chooseKernelCache(CompileOptions &o, const Environment &outside);

/// Takes out the options that have no effect on this compilation, and says so on standard error.
void dropUnused(CompileOptions &o);

/// Which of the options exclude each other and what to take instead, one sentence; "" if none do.
std::string conflictOfOptions(const CompileOptions &o);

} // namespace ztc::driver
