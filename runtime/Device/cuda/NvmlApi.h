// What we use of NVML, declared here as CudaApi.h declares the driver.
#pragma once

struct nvmlDevice_st;

namespace ztc::nvml {

using Result = int; ///< nvmlReturn_t
using GpuHandle = nvmlDevice_st *;

struct MemoryInfo { ///< nvmlMemory_t, bytes
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

inline constexpr Result kSuccess = 0, kNotFound = 6;
inline constexpr int kClockSm = 1, kTemperatureGpu = 0; ///< nvmlClockType_t, nvmlTemperatureSensors_t

/// X(symbol, arguments). All return a Result.
#define ZTC_NVML_FUNCTIONS(X)                                                                                          \
  X(nvmlInit_v2, ())                                                                                                   \
  X(nvmlDeviceGetHandleByPciBusId_v2, (const char *busId, GpuHandle *gpu))                                             \
  X(nvmlDeviceGetHandleByUUID, (const char *uuid, GpuHandle *gpu))                                                     \
  X(nvmlDeviceGetClockInfo, (GpuHandle gpu, int clock, unsigned *megahertz))                                           \
  X(nvmlDeviceGetPowerUsage, (GpuHandle gpu, unsigned *milliwatts))                                                    \
  X(nvmlDeviceGetTemperature, (GpuHandle gpu, int sensor, unsigned *celsius))                                          \
  X(nvmlDeviceGetMemoryInfo, (GpuHandle gpu, MemoryInfo * memory))

} // namespace ztc::nvml
