// libztc-standin-nvml.so: a GPU that is always equally busy; its memory is the stand-in driver's.
#include "runtime/Device/cuda/NvmlApi.h"
#include "tests/standin/libraries/StandIn.h"
#include <cstring>

namespace ztc::nvml {
#define ZTC_DECLARE(function, arguments) extern "C" Result function arguments;
ZTC_NVML_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE

extern "C" {

const char *ztcStandIn() {
  return "nvml";
}

Result nvmlInit_v2() {
  return kSuccess;
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char *, GpuHandle *gpu) {
  static char one = 0;
  *gpu = reinterpret_cast<GpuHandle>(&one);
  return kSuccess;
}
/// A slice has a handle of its own, and by the bus it would be the whole GPU: whose memory others use too.
Result nvmlDeviceGetHandleByUUID(const char *uuid, GpuHandle *gpu) {
  return std::strlen(uuid) == 40 ? nvmlDeviceGetHandleByPciBusId_v2(uuid, gpu) : kNotFound;
}
Result nvmlDeviceGetClockInfo(GpuHandle, int, unsigned *megahertz) {
  *megahertz = 1234;
  return kSuccess;
}
Result nvmlDeviceGetPowerUsage(GpuHandle, unsigned *milliwatts) {
  *milliwatts = 321000;
  return kSuccess;
}
Result nvmlDeviceGetTemperature(GpuHandle, int, unsigned *celsius) {
  *celsius = 45;
  return kSuccess;
}
Result nvmlDeviceGetMemoryInfo(GpuHandle, MemoryInfo *memory) {
  *memory = {};
  memory->used = standin::usedBytes();
  return kSuccess;
}

} // extern "C"
} // namespace ztc::nvml
