#include "runtime/Core/CpuFeatures.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace ztc {

/// Each has what those before it have.
static constexpr std::array<std::string_view, 3> kTargets = {"x86-64-v3", "x86-64-v4", "avx512-bf16"};

/// The place of a target in the list; its end for others.
static size_t rankOf(std::string_view target) {
  return size_t(std::find(kTargets.begin(), kTargets.end(), target) - kTargets.begin());
}

/// The widest target that this process may use.
static size_t &widestRank() {
  static size_t rank = kTargets.size() - 1;
  return rank;
}

static bool processorHas(std::string_view target) {
#if defined(__x86_64__)
  // The compiler's support library asks XGETBV before it reports AVX or AVX-512.
  __builtin_cpu_init();
  if (target == "x86-64-v3")
    return __builtin_cpu_supports("x86-64-v3");
  if (target == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
  if (target == "avx512-bf16")
    return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
#endif
  return false;
}

bool hostSupports(const std::string &target) {
  return rankOf(target) <= widestRank() && processorHas(target);
}

Status limitHostTarget(const std::string &target) {
  if (!processorHas(target)) {
    const auto best = std::find_if(kTargets.rbegin(), kTargets.rend(), processorHas);
    return failedPrecondition(fmt::format("{}: this processor does not have it; the best it has is {}", target,
                                          best == kTargets.rend() ? "below x86-64-v3" : *best));
  }
  widestRank() = rankOf(target);
  return Status::ok();
}

std::string bestHostTarget() {
  for (const char *target : {"x86-64-v4", "x86-64-v3"})
    if (hostSupports(target))
      return target;
  return "";
}

} // namespace ztc
