// The CPU as a device: one thread pool, generated kernels, matrix products of our own.
#pragma once
#include "runtime/Device/Device.h"
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// A generated kernel. Works on units [begin, end) of its parallel range.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

struct HostDeviceOptions {
  uint32_t threads = 1; ///< workers, the calling thread among them
  /// Kernels found here by name are taken instead of those in the plan's images: a seam for tests.
  std::vector<std::pair<std::string, KernelFunction>> kernels;
};

/// Fails (FailedPrecondition) only on nonsense options.
StatusOr<std::unique_ptr<Device>> createHostDevice(HostDeviceOptions options);

} // namespace ztc
