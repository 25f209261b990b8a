// What this machine can do at best: the measures that a profile is held against.
#include "runtime/Device/host/HostLimits.h"
#include "runtime/Device/host/Product.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <sys/mman.h>

namespace ztc {
namespace {

/// Larger than the caches of most machines, small enough to be measured in some milliseconds.
constexpr uint64_t kCopyBytes = 48 << 20;
constexpr uint64_t kMatmulSize = 1024;
constexpr int kRepetitions = 7;

struct Unmap {
  uint64_t bytes;
  void operator()(std::byte *memory) const { munmap(memory, bytes); }
};

/// The shortest of some runs, in seconds: others share the machine.
template <typename Work> double shortest(Work work) {
  double best = 1e300;
  for (int i = 0; i < kRepetitions; ++i) {
    auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

} // namespace

StatusOr<DeviceLimits> measureHostLimits(HostResources &resources, plan::DataType type) {
  // Not the arena: it is zero when the weights are loaded. Given back before the run begins.
  const uint64_t bytes = 2 * kCopyBytes;
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return resourceExhausted("no memory to measure this machine's limits in");
  std::unique_ptr<std::byte, Unmap> memory(static_cast<std::byte *>(mapped), Unmap{bytes});
  madvise(mapped, bytes, MADV_HUGEPAGE);
  std::byte *from = memory.get(), *to = from + kCopyBytes;
  std::memset(from, 1, bytes);

  DeviceLimits limits;
  limits.copyBytesPerSecond =
      2 * double(kCopyBytes) / shortest([&] {
        resources.pool.parallelFor(kCopyBytes, 4096, [&](uint32_t, uint64_t begin, uint64_t end) {
          std::memcpy(to + begin, from + begin, end - begin);
        });
      });

  MatmulProblem problem;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = kMatmulSize;
  if (multipliesNatively(type))
    problem.typeA = problem.typeB = problem.typeC = type;
  ZTC_ASSIGN_OR_RETURN(ParallelMatmul product, ParallelMatmul::prepare(resources.matmuls, problem));
  std::memset(from, 0, bytes);
  const uint64_t matrix = kMatmulSize * kMatmulSize * sizeof(float);
  const double seconds = shortest([&] { product.execute(resources.pool, from, from + matrix, from + 2 * matrix); });
  limits.matmulFlopsPerSecond = 2 * double(kMatmulSize) * double(kMatmulSize) * double(kMatmulSize) / seconds;
  limits.matmulName = "a product of 1024 x 1024 matrices";
  if (type != plan::F32)
    limits.matmulName += fmt::format(" ({})", productPath(type));
  return limits;
}

} // namespace ztc
