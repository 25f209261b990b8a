// A GPU as a device: the driver API, generated kernels as cubins, cuBLASLt for matrix products.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <cstdint>
#include <memory>

namespace ztc {

struct CudaDeviceOptions {
  CudaLibraryPaths libraries;
  uint32_t localRank = 0; ///< of this host: chooses the GPU, modulo their number
  /// Waits after each step, so that an error is reported by the step that made it. For tests and the search for errors.
  bool synchronous = false;
  /// Programs become CUDA graphs after their first execution; not where one of the other two is wanted.
  bool graphs = true;
  /// Takes the time of each step, for a profile or a trace. The host then waits after each program.
  bool timed = false;
  /// Attention's gradient has the same bits each time, which takes it longer.
  bool deterministic = true;
  /// Of the host, for what a plan computes in its memory.
  uint32_t hostThreads = 1;
};

/// The device is for the thread that makes it. Fails (FailedPrecondition) with what was found and what is needed.
StatusOr<std::unique_ptr<Device>> createCudaDevice(CudaDeviceOptions options);

/// Ok where a GPU can be used: what createCudaDevice checks first. Leaves the driver loaded.
StatusOr<std::vector<Gpu>> findGpus(const CudaLibraryPaths &libraries);

} // namespace ztc
