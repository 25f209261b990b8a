// What a GPU is and how it does, besides running kernels: NVML's clocks, power and memory, and the maker's peak.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include "runtime/Device/cuda/NvmlApi.h"

namespace ztc {

/// Asks NVML. Where it is missing or refuses, nothing is known: no run fails for that.
class CudaMonitor {
public:
  void open(const CudaLibraryPaths &paths, const Gpu &gpu);
  DeviceTelemetry telemetry() const;
  /// Of the whole GPU, all processes together; 0: unknown.
  uint64_t usedBytes() const;

private:
  struct Functions {
    using GpuHandle = nvml::GpuHandle;
    using MemoryInfo = nvml::MemoryInfo;
#define ZTC_DECLARE(function, arguments) nvml::Result(*function) arguments = nullptr;
    ZTC_NVML_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
  };
  Functions nvml_;
  nvml::GpuHandle gpu_ = nullptr; ///< null: no NVML
};

/// Dense products of `type` with f32 sums, per second, as the maker's data sheets have them; where they do not name
/// the GPU, from its multiprocessors and `clockHertz`. 0: unknown.
double peakFlopsPerSecond(const Gpu &gpu, plan::DataType type, double clockHertz);

} // namespace ztc
