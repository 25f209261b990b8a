// What this GPU can do at best: the measures that a profile is held against.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// Copies and multiplies in memory of its own, beside the arena; zeros where that much is not free. `type`: of what is
/// multiplied.
StatusOr<DeviceLimits> measureCudaLimits(CudaResources &resources, plan::DataType type);

} // namespace ztc
