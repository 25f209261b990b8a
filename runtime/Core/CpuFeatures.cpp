#include "runtime/Core/CpuFeatures.h"
#include <fmt/format.h>

namespace ztc {

/// The widest target that this process may use.
static std::string &widestTarget() {
  static std::string target = "x86-64-v4";
  return target;
}

static bool processorHas(const std::string &target) {
#if defined(__x86_64__)
  // The compiler's support library asks XGETBV before it reports AVX or AVX-512.
  __builtin_cpu_init();
  if (target == "x86-64-v3")
    return __builtin_cpu_supports("x86-64-v3");
  if (target == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
#endif
  return false;
}

bool hostSupports(const std::string &target) {
  return (target == "x86-64-v3" || widestTarget() == "x86-64-v4") && processorHas(target);
}

Status limitHostTarget(const std::string &target) {
  if (!processorHas(target))
    return failedPrecondition(fmt::format("{}: this processor does not have it; the best it has is {}", target,
                                          processorHas("x86-64-v3") ? "x86-64-v3" : "below x86-64-v3"));
  widestTarget() = target;
  return Status::ok();
}

std::string bestHostTarget() {
  for (const char *target : {"x86-64-v4", "x86-64-v3"})
    if (hostSupports(target))
      return target;
  return "";
}

} // namespace ztc
