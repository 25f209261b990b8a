#include "runtime/Collective/GlooLibrary.h"
#include "runtime/Core/LoadModule.h"
#include <fmt/format.h>
#include <mutex>
#include <optional>

namespace ztc {

StatusOr<const ZtcGlooFunctions *> openGlooModule(const std::string &path, const std::string &programFolder) {
  const std::vector<std::string> candidates = moduleCandidates("libztc-gloo.so", path, programFolder);
  auto table = openModuleTable(candidates, "ztcGlooFunctions", ZTC_GLOO_VERSION);
  if (table.isOk())
    return static_cast<const ZtcGlooFunctions *>(*table);
  const std::string &why = table.status().message();
  if (table.status().code() == StatusCode::NotFound)
    return failedPrecondition(
        fmt::format("several CPU ranks need libztc-gloo.so, which is not at {}: build ztc where Debian's "
                    "package libgloo-dev is installed, or name the file in ZTC_GLOO_LIBRARY",
                    fmt::join(candidates, " or ")));
  const bool lacksGloo = why.find("libgloo.so") != std::string::npos;
  return failedPrecondition(why + (lacksGloo ? "; install Debian's package libgloo0" : ""));
}

StatusOr<const ZtcGlooFunctions *> loadGlooModule(const std::string &path) {
  static std::mutex mutex;
  static std::optional<StatusOr<const ZtcGlooFunctions *>> loaded;
  std::lock_guard lock(mutex);
  if (!loaded)
    loaded = openGlooModule(path, programFolder());
  return *loaded;
}

} // namespace ztc
