// Page-locked memory of the host in which a plan keeps slots.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <functional>

namespace ztc {

/// Zero. `drain` returns when nothing copies from or to it any more. ResourceExhausted where the driver does not lock
/// so much.
StatusOr<std::unique_ptr<Arena>> allocatePinnedSpace(const CudaDriver &driver, uint64_t bytes,
                                                     std::function<void()> drain);

} // namespace ztc
