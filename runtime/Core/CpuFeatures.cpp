#include "runtime/Core/CpuFeatures.h"

namespace ztc {

bool hostSupports(const std::string &target) {
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

std::string bestHostTarget() {
  for (const char *target : {"x86-64-v4", "x86-64-v3"})
    if (hostSupports(target))
      return target;
  return "";
}

} // namespace ztc
