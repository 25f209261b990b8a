#include "runtime/Device/cuda/CudaLibraries.h"
#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace ztc {
namespace {

/// The oldest driver whose functions and module formats we use.
constexpr int kOldestDriver = 12000;

Status initialize(CudaDriver &driver, const CudaLibraryPaths &paths) {
  const cuda::Result result = driver.cuInit(0);
  if (result == cuda::kNoDevice) {
    const std::string &visible = paths.visibleDevices;
    return failedPrecondition(fmt::format("the NVIDIA driver is here and sees no GPU (CUDA_VISIBLE_DEVICES is {})",
                                          visible.empty() ? "empty or not set" : fmt::format("'{}'", visible)));
  }
  if (result == cuda::kStubLibrary)
    return failedPrecondition("the libcuda that was found is the toolkit's stub for linking, no driver: take its "
                              "folder out of LD_LIBRARY_PATH");
  if (result == cuda::kSystemDriverMismatch)
    return failedPrecondition(
        "libcuda and the NVIDIA kernel module are of different versions: reload the module or restart this host");
  if (result != cuda::kSuccess)
    return failedPrecondition(driver.check(result, "cuInit").message());
  ZTC_RETURN_IF_ERROR(driver.check(driver.cuDriverGetVersion(&driver.version), "cuDriverGetVersion"));
  if (driver.version < kOldestDriver)
    return failedPrecondition(fmt::format("the NVIDIA driver is too old: it supports CUDA {}, {} is needed: install "
                                          "driver 525 or a later one",
                                          cudaVersionText(driver.version), cudaVersionText(kOldestDriver)));
  return Status::ok();
}

} // namespace

std::string cudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Files to try, in order.
static std::vector<std::string> candidatesOf(const CudaLibraryName &name, const std::string &path,
                                             const CudaLibraryPaths &paths) {
  if (!paths.standIns.empty())
    return {paths.standIns + "/" + name.standIn};
  if (!path.empty())
    return {path};
  std::vector<std::string> candidates;
  for (const char *candidate : name.names)
    if (candidate)
      candidates.emplace_back(candidate);
  const size_t byName = candidates.size();
  for (size_t i = 0; i < byName; ++i)
    for (const std::string &folder : paths.folders)
      if (const std::string file = folder + "/" + candidates[i]; access(file.c_str(), F_OK) == 0)
        candidates.push_back(file);
  return candidates;
}

StatusOr<void *> openCudaLibrary(const CudaLibraryName &name, const std::string &path, const CudaLibraryPaths &paths) {
  std::string reasons;
  for (const std::string &candidate : candidatesOf(name, path, paths)) {
    void *library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *reason = dlerror();
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : candidate.c_str());
      continue;
    }
    if (paths.standIns.empty() && dlsym(library, "ztcStandIn"))
      return failedPrecondition(
          fmt::format("{} is a stand-in for tests, which only ZTC_STAND_INS may name", candidate));
    return library;
  }
  return failedPrecondition(fmt::format("{} cannot be loaded ({}): {}; {} may name its file", name.title, reasons,
                                        name.advice, name.variable));
}

std::string libraryFile(void *library) {
  link_map *entry = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, static_cast<void *>(&entry)) == 0 && entry ? entry->l_name : "";
}

void openCompanions(std::initializer_list<const char *> names, const CudaLibraryPaths &paths) {
  if (!paths.standIns.empty())
    return;
  for (const char *name : names)
    if (!dlopen(name, RTLD_NOW | RTLD_LOCAL))
      for (const std::string &folder : paths.folders)
        if (dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL))
          break;
}

Status missingSymbol(const CudaLibraryName &name, const char *symbol) {
  return failedPrecondition(fmt::format("{} is too old: it lacks {}; install a later one, or name one in {}",
                                        name.title, symbol, name.variable));
}

Status CudaDriver::check(Result result, const char *what) const {
  if (result == cuda::kSuccess)
    return Status::ok();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  std::string message =
      fmt::format("{}: {} ({})", what, name ? name : fmt::format("error {}", result), text ? text : "no description");
  // Whatever call comes next returns what a kernel did wrong.
  if (result == cuda::kIllegalAddress || result == cuda::kMisalignedAddress || result == cuda::kLaunchFailed)
    message += ": a kernel that was called some time ago failed; ZTC_CUDA_SYNC=1 names it";
  return result == cuda::kOutOfMemory ? resourceExhausted(std::move(message)) : unavailable(std::move(message));
}

Status CudaDriver::open(const CudaLibraryPaths &paths) {
  ZTC_ASSIGN_OR_RETURN(library, openCudaLibrary(kDriverName, paths.driver, paths));
#define ZTC_RESOLVE(function, arguments)                                                                               \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function));                                          \
  if (!function)                                                                                                       \
    return missingSymbol(kDriverName, #function);
  ZTC_CUDA_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
  if (!paths.standIns.empty())
    emulatedTarget = "simt";
  return initialize(*this, paths);
}

StatusOr<const CudaDriver *> CudaDriver::load(const CudaLibraryPaths &paths) {
  static std::mutex mutex;
  static const CudaDriver *loaded = nullptr;
  std::lock_guard lock(mutex);
  if (!loaded) {
    auto driver = std::make_unique<CudaDriver>();
    ZTC_RETURN_IF_ERROR(driver->open(paths));
    loaded = driver.release();
  }
  return loaded;
}

std::string Gpu::architecture() const {
  return fmt::format("sm_{}{}", major, minor);
}

std::string Gpu::target() const {
  return isEmulated() ? emulatedTarget : architecture() + (major >= 9 ? "a" : "");
}

bool Gpu::runs(const std::string &target) const {
  if (target.size() < 5 || target.compare(0, 3, "sm_") != 0)
    return false;
  // "sm_90a" runs on 9.0 alone, "sm_80" on 8.0, 8.6, 8.9.
  const bool exact = target.back() == 'a';
  int number = 0;
  for (size_t i = 3; i < target.size() - (exact ? 1 : 0); ++i) {
    if (target[i] < '0' || target[i] > '9' || number > 1000)
      return false;
    number = number * 10 + (target[i] - '0');
  }
  return number / 10 == major && (exact ? number % 10 == minor : number % 10 <= minor);
}

/// As nvidia-smi writes it. Slices are told by their names: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
static std::string uuidText(const cuda::Uuid &uuid, const std::string &name) {
  std::string text = name.find(" MIG ") != std::string::npos ? "MIG-" : "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uint8_t(uuid.bytes[i]));
  return text;
}

StatusOr<std::vector<Gpu>> listGpus(const CudaDriver &driver) {
  int count = 0;
  ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Gpu gpu;
    gpu.emulatedTarget = driver.emulatedTarget;
    char text[256] = "", bus[64] = "";
    size_t bytes = 0;
    ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceGet(&gpu.index, ordinal), "cuDeviceGet"));
    ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceGetName(text, sizeof text, gpu.index), "cuDeviceGetName"));
    ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceGetPCIBusId(bus, sizeof bus, gpu.index), "cuDeviceGetPCIBusId"));
    ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceTotalMem_v2(&bytes, gpu.index), "cuDeviceTotalMem"));
    for (auto [attribute, to] : {std::pair{cuda::kComputeCapabilityMajor, &gpu.major},
                                 {cuda::kComputeCapabilityMinor, &gpu.minor},
                                 {cuda::kMultiprocessorCount, &gpu.multiprocessors}})
      ZTC_RETURN_IF_ERROR(driver.check(driver.cuDeviceGetAttribute(to, attribute, gpu.index), "cuDeviceGetAttribute"));
    gpu.name = text;
    gpu.busId = bus;
    cuda::Uuid uuid{};
    if (driver.cuDeviceGetUuid_v2(&uuid, gpu.index) == cuda::kSuccess)
      gpu.uuid = uuidText(uuid, gpu.name);
    gpu.totalBytes = bytes;
    gpus.push_back(std::move(gpu));
  }
  if (gpus.empty())
    return failedPrecondition("the NVIDIA driver is here and sees no GPU");
  return gpus;
}

::ztc::Status CublasLt::check(Status status, const char *what) const {
  if (status == cublaslt::kSuccess)
    return ::ztc::Status::ok();
  const char *text = cublasLtGetStatusString(status);
  return unavailable(fmt::format("{}: {} ({})", what, text ? text : "no description", version));
}

::ztc::Status CublasLt::open(const CudaLibraryPaths &paths, const CudaDriver &driver) {
  ZTC_ASSIGN_OR_RETURN(void *library, openCudaLibrary(kCublasLtName, paths.cublasLt, paths));
#define ZTC_RESOLVE(function, result, arguments)                                                                       \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function));                                          \
  if (!function)                                                                                                       \
    return missingSymbol(kCublasLtName, #function);
  ZTC_CUBLASLT_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
  const size_t number = cublasLtGetVersion(); // 130100 of 13.1.0
  version = fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  if (int(number / 10000) > driver.version / 1000)
    return failedPrecondition(fmt::format("{} needs a driver for CUDA {}.0, this one supports CUDA {}: install a later "
                                          "driver, or cuBLAS of CUDA {}",
                                          version, number / 10000, cudaVersionText(driver.version),
                                          driver.version / 1000));
  return ::ztc::Status::ok();
}

StatusOr<const CublasLt *> CublasLt::load(const CudaLibraryPaths &paths, const CudaDriver &driver) {
  static std::mutex mutex;
  static const CublasLt *loaded = nullptr;
  std::lock_guard lock(mutex);
  if (!loaded) {
    auto library = std::make_unique<CublasLt>();
    ZTC_RETURN_IF_ERROR(library->open(paths, driver));
    loaded = library.release();
  }
  return loaded;
}

} // namespace ztc
