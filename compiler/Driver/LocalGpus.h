// The GPUs of the machine that compiles.
#pragma once
#include "runtime/Device/cuda/CudaLibraries.h"
#include <string>
#include <vector>

namespace ztc::driver {

/// What kernels are made for where --target is not given.
struct DefaultTargets {
  std::vector<std::string> targets; ///< host, then one for each kind of GPU that this process sees
  std::string note;                 ///< what stood in the way of using a GPU that seems to be here, one sentence; or ""
};

/// Asks the NVIDIA driver, if there is one. No GPU is not an error: the host is always there.
DefaultTargets defaultTargets(const CudaLibraryPaths &libraries);

} // namespace ztc::driver
