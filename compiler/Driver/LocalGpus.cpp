#include "compiler/Driver/LocalGpus.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include <fmt/format.h>

namespace ztc::driver {

/// Whether somebody would expect that a GPU is found here.
static bool seemsToHaveGpu(const CudaLibraryPaths &libraries) {
  return !libraries.driver.empty() || !libraries.standIns.empty() || llvm::sys::fs::exists("/dev/nvidiactl") ||
         llvm::sys::fs::exists("/dev/dxg");
}

DefaultTargets defaultTargets(const CudaLibraryPaths &libraries) {
  DefaultTargets result{.targets = {"host"}, .note = {}};
  auto withoutGpu = [&](const std::string &why) {
    if (seemsToHaveGpu(libraries))
      result.note = "no kernels for a GPU: " + why + "; --target=host,sm_90a (or sm_80, sm_100a) makes them anyway";
    return result;
  };
  StatusOr<const CudaDriver *> driver = CudaDriver::load(libraries);
  if (!driver.isOk())
    return withoutGpu(driver.status().message());
  StatusOr<std::vector<Gpu>> gpus = listGpus(**driver);
  if (!gpus.isOk())
    return withoutGpu(gpus.status().message());
  for (const Gpu &gpu : *gpus) {
    // The latest that it runs: what is made for 8.9 is better there than what is made for 8.0.
    const DeviceTarget *best = nullptr;
    for (const DeviceTarget &target : deviceTargets())
      if (gpu.runs(target.name.str()))
        best = &target;
    if (!best)
      return withoutGpu(fmt::format("{} is an {}, for which this build generates none", gpu.name, gpu.architecture()));
    if (!llvm::is_contained(result.targets, best->name.str()))
      result.targets.push_back(best->name.str());
  }
  return result;
}

} // namespace ztc::driver
