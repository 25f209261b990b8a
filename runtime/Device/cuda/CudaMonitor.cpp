#include "runtime/Device/cuda/CudaMonitor.h"
#include <dlfcn.h>

namespace ztc {
namespace {

struct KnownGpu {
  const char *name; ///< a part of it; the first that fits counts
  double teraflops; ///< bf16 and f16, dense
};
constexpr KnownGpu kKnownGpus[] = {
    {"GB200", 2500},    {"B200", 2250},    {"GH200", 989.4}, {"H200 NVL", 835}, {"H200", 989.4},
    {"H100 PCIe", 756}, {"H100 NVL", 835}, {"H800", 989.4},  {"H100", 989.4},   {"H20", 148},
    {"A100", 312},      {"A800", 312},     {"L40S", 362},
};

/// Floating-point operations of a multiprocessor per cycle, as the architectures' whitepapers have them: f32 by the
/// processor's lanes, 16 bits by its tensor cores, dense and with f32 sums.
double flopsPerCycle(const Gpu &gpu, plan::DataType type) {
  if (type == plan::F32)
    return gpu.major == 8 && gpu.minor == 0 ? 128 : 256;
  if (gpu.major == 9)
    return 4096;
  if (gpu.major == 10)
    return 8192;
  if (gpu.major == 8 && gpu.minor == 0)
    return 2048;
  // Those for games add in f32 at half the rate.
  const bool isForGames = gpu.name.find("GeForce") != std::string::npos;
  return gpu.major < 8 ? 0 : isForGames ? 512 : 1024;
}

} // namespace

void CudaMonitor::open(const CudaLibraryPaths &paths, const Gpu &gpu) {
  const StatusOr<void *> opened = openCudaLibrary(kNvmlName, paths.nvml, paths);
  if (!opened.isOk())
    return;
#define ZTC_RESOLVE(function, arguments)                                                                               \
  nvml_.function = reinterpret_cast<decltype(nvml_.function)>(dlsym(*opened, #function));                              \
  if (!nvml_.function)                                                                                                 \
    return;
  ZTC_NVML_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
  if (nvml_.nvmlInit_v2() != nvml::kSuccess)
    return;
  // By the bus a slice would be its whole GPU, with what others use of it.
  if (nvml_.nvmlDeviceGetHandleByUUID(gpu.uuid.c_str(), &gpu_) != nvml::kSuccess &&
      (gpu.isSlice() || nvml_.nvmlDeviceGetHandleByPciBusId_v2(gpu.busId.c_str(), &gpu_) != nvml::kSuccess))
    gpu_ = nullptr;
}

DeviceTelemetry CudaMonitor::telemetry() const {
  DeviceTelemetry now;
  if (!gpu_)
    return now;
  unsigned clock = 0, milliwatts = 0, celsius = 0;
  if (nvml_.nvmlDeviceGetClockInfo(gpu_, nvml::kClockSm, &clock) == nvml::kSuccess)
    now.clockMhz = clock;
  if (nvml_.nvmlDeviceGetPowerUsage(gpu_, &milliwatts) == nvml::kSuccess)
    now.watts = double(milliwatts) / 1000;
  if (nvml_.nvmlDeviceGetTemperature(gpu_, nvml::kTemperatureGpu, &celsius) == nvml::kSuccess)
    now.celsius = celsius;
  return now;
}

uint64_t CudaMonitor::usedBytes() const {
  nvml::MemoryInfo memory;
  return gpu_ && nvml_.nvmlDeviceGetMemoryInfo(gpu_, &memory) == nvml::kSuccess ? memory.used : 0;
}

double peakFlopsPerSecond(const Gpu &gpu, plan::DataType type, double clockHertz) {
  if (type != plan::F32 && !gpu.isSlice()) // a slice has a part of its GPU's multiprocessors
    for (const KnownGpu &known : kKnownGpus)
      if (gpu.name.find(known.name) != std::string::npos)
        return known.teraflops * 1e12;
  return flopsPerCycle(gpu, type) * gpu.multiprocessors * clockHertz;
}

} // namespace ztc
