#include "runtime/Core/CpuFeatures.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ztc {

/// Each has what those before it have.
static constexpr std::array<std::string_view, 4> kTargets = {"x86-64-v3", "x86-64-v4", "avx512-bf16", "amx-bf16"};

/// The place of a target in the list; its end for others.
static size_t rankOf(std::string_view target) {
  return size_t(std::find(kTargets.begin(), kTargets.end(), target) - kTargets.begin());
}

/// The widest target that this process may use.
static size_t &widestRank() {
  static size_t rank = kTargets.size() - 1;
  return rank;
}

/// Whether Linux lets this process and its threads, present and later, use the registers of tiles: they are asked for,
/// because they would make each thread's saved state 8 KiB larger than programs of before expect.
static bool maySaveTiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
#else
  return false;
#endif
}

static bool processorHasTiles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
  return (d & kBf16) && (d & kTile);
#else
  return false;
#endif
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
  if (target == "amx-bf16")
    return processorHas("avx512-bf16") && processorHasTiles() && maySaveTiles();
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
