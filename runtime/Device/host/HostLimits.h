// What this machine can do at best.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/host/HostStep.h"

namespace ztc {

/// Copies and multiplies for some tenths of a second, with all workers. `type`: what the plan's products multiply.
/// Where the processor has no instructions for it the measure is the f32 product that its panels pass through. Takes 96
/// MiB beside the arena and gives them back.
StatusOr<DeviceLimits> measureHostLimits(HostResources &resources, plan::DataType type);

} // namespace ztc
