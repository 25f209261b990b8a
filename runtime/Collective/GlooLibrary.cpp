#include "runtime/Collective/GlooLibrary.h"
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <vector>

namespace ztc {

StatusOr<const ZtcGlooFunctions *> openGlooModule(const std::string &path, const std::string &programFolder) {
  const std::vector<std::string> candidates =
      path.empty()
          ? std::vector<std::string>{programFolder + "/libztc-gloo.so", programFolder + "/../lib/libztc-gloo.so"}
          : std::vector<std::string>{path};
  for (const std::string &candidate : candidates) {
    std::error_code ignored;
    if (!std::filesystem::exists(candidate, ignored))
      continue;
    void *handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const std::string why = dlerror();
      const bool lacksGloo = why.find("libgloo") != std::string::npos && why.find(candidate + ":") == std::string::npos;
      return failedPrecondition(fmt::format("{} does not load: {}{}", candidate, why,
                                            lacksGloo ? "; install Debian's package libgloo0" : ""));
    }
    auto *functions = reinterpret_cast<decltype(&ztcGlooFunctions)>(dlsym(handle, "ztcGlooFunctions"));
    if (!functions || functions()->version != ZTC_GLOO_VERSION)
      return failedPrecondition(
          fmt::format("{} is not of the same build as this program: install both together", candidate));
    return functions();
  }
  return failedPrecondition(
      fmt::format("several CPU ranks need libztc-gloo.so, which is not at {}: build ztc where Debian's "
                  "package libgloo-dev is installed, or name the file in ZTC_GLOO_LIBRARY",
                  fmt::join(candidates, " or ")));
}

StatusOr<const ZtcGlooFunctions *> loadGlooModule(const std::string &path) {
  static std::mutex mutex;
  static std::optional<StatusOr<const ZtcGlooFunctions *>> loaded;
  std::lock_guard lock(mutex);
  if (!loaded) {
    std::error_code ignored;
    loaded = openGlooModule(path, std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string());
  }
  return *loaded;
}

} // namespace ztc
