#include "runtime/Core/LoadModule.h"
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>

namespace ztc {

std::string programFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

std::vector<std::string> moduleCandidates(const std::string &name, const std::string &path,
                                          const std::string &programFolder) {
  if (!path.empty())
    return {path};
  // As it is built or installed; as a Python wheel has it.
  return {programFolder + "/" + name, programFolder + "/../lib/" + name, programFolder + "/../lib/ztc/" + name};
}

StatusOr<const void *> openModuleTable(const std::vector<std::string> &candidates, const char *symbol,
                                       uint32_t version) {
  for (const std::string &candidate : candidates) {
    std::error_code ignored;
    if (!std::filesystem::exists(candidate, ignored))
      continue;
    void *module = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module)
      return failedPrecondition(fmt::format("{} does not load: {}", candidate, dlerror()));
    auto *function = reinterpret_cast<const void *(*)()>(dlsym(module, symbol));
    const void *table = function ? function() : nullptr;
    if (!table || *static_cast<const uint32_t *>(table) != version)
      return failedPrecondition(
          fmt::format("{} is not of the same build as this program: install both together", candidate));
    return table;
  }
  return notFound(fmt::format("{} is not there", fmt::join(candidates, " or ")));
}

} // namespace ztc
