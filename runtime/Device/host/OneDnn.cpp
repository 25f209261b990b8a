#include "runtime/Device/host/OneDnn.h"
#include "runtime/Core/CpuFeatures.h"
#include <dlfcn.h>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <vector>

namespace ztc {

Status OneDnn::open(const std::string &path) {
  std::vector<std::string> names;
  if (!path.empty())
    names.push_back(path);
  else
    names = {"libdnnl.so.2", "libdnnl.so"};
  void *library = nullptr;
  std::string reasons;
  for (const std::string &name : names) {
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library)
      break;
    const char *reason = dlerror();
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : name.c_str());
  }
  if (!library)
    return unavailable(
        fmt::format("matrix products need oneDNN 2 ({}): install it (Debian: apt-get install libdnnl2) or point "
                    "ZTC_LIBDNNL at libdnnl.so.2",
                    reasons));
#define ZTC_RESOLVE(name)                                                                                              \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));                                                      \
  if (!name)                                                                                                           \
    return unavailable("the oneDNN library lacks " #name ": version 2.6 is needed (Debian: apt-get install "           \
                       "libdnnl2)");
  ZTC_ONEDNN_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
  const dnnl_version_t *found = dnnl_version();
  version = fmt::format("oneDNN {}.{}.{}", found->major, found->minor, found->patch);
  // The C API of version 3 has other signatures under the same names.
  if (found->major != 2)
    return unavailable(fmt::format("{} found, version 2 is needed (Debian: apt-get install libdnnl2)", version));
  if (!hostSupports("x86-64-v4"))
    dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); // what this process is forbidden the library is too
  // Found through the library's own dependencies; absent in builds without OpenMP, which are single-threaded or have no
  // such setting.
  setOpenMpThreads = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
  makeThreadSingle();
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
    return unavailable(version + ": no CPU engine");
  return Status::ok();
}

void OneDnn::makeThreadSingle() const {
  thread_local bool single = false;
  if (single)
    return;
  single = true;
  if (setOpenMpThreads)
    setOpenMpThreads(1);
}

const char *OneDnn::bf16Instructions() const {
  const unsigned isa = dnnl_get_effective_cpu_isa();
  const auto includes = [&](unsigned set) { return (isa & set) == set; };
  if (includes(dnnl_cpu_isa_avx512_core_amx))
    return "AMX";
  return includes(dnnl_cpu_isa_avx512_core_bf16) ? "AVX512-BF16" : "";
}

StatusOr<const OneDnn *> OneDnn::load(const std::string &path) {
  // Never unloaded: primitives of any device may outlive any scope, and the library is one per process anyway.
  static std::mutex mutex;
  static const OneDnn *loaded = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loaded) {
    auto library = std::make_unique<OneDnn>();
    ZTC_RETURN_IF_ERROR(library->open(path));
    loaded = library.release();
  }
  return loaded;
}

} // namespace ztc
