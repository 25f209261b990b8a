// What this machine can do at best.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/host/HostStep.h"

namespace ztc {

/// Copies and multiplies for some tenths of a second, with all workers. Takes 96 MiB beside the arena and gives them
/// back.
StatusOr<DeviceLimits> measureHostLimits(HostResources &resources);

} // namespace ztc
