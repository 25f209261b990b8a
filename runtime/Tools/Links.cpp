#include "runtime/Tools/Links.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/CudaLinks.h"
#include "runtime/Device/host/ThreadPool.h"
#include "runtime/Disk/DiskSpace.h"
#include "runtime/Format/MeasuredLinks.h"
#include <algorithm>
#include <cstring>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>
#include <thread>
#include <vector>

namespace ztc {

/// One thread, between pieces that no cache holds: the stream of moves has one.
static double copyBytesPerSecond() {
  constexpr size_t kBytes = size_t(64) << 20;
  std::vector<std::byte> from(kBytes, std::byte(1)), to(kBytes);
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double before = steadySeconds();
    std::memcpy(to.data(), from.data(), kBytes);
    const double seconds = steadySeconds() - before;
    from[size_t(round)] = to[size_t(round) + 1]; // it is looked at
    if (seconds > 0)
      best = std::max(best, double(kBytes) / seconds);
  }
  return best;
}

/// All cores at once over memory that no cache holds, as an update goes over it: bytes read and written per second.
static double updatedBytesPerSecond(ThreadPool &pool) {
  constexpr uint64_t kElements = uint64_t(64) << 20, kGrain = uint64_t(1) << 16;
  const auto values = std::make_unique_for_overwrite<float[]>(kElements),
             added = std::make_unique_for_overwrite<float[]>(kElements);
  pool.parallelFor(kElements, kGrain, [&](uint32_t, uint64_t begin, uint64_t end) { // pages are where their core is
    std::fill(values.get() + begin, values.get() + end, 1.0F);
    std::fill(added.get() + begin, added.get() + end, 0.5F);
  });
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double before = steadySeconds();
    pool.parallelFor(kElements, kGrain, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i)
        values[i] = values[i] * 0.5F + added[i];
    });
    if (const double seconds = steadySeconds() - before; seconds > 0)
      best = std::max(best, 3.0 * sizeof(float) * double(kElements) / seconds);
  }
  return best;
}

StatusOr<std::string> linkReport(const LinkOptions &options) {
  const std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  std::vector<MeasuredLink> links;
  const double copied = copyBytesPerSecond();
  links.push_back({"memory", "memory", date, copied, copied});
  std::string text = fmt::format("memory  {:.2f} GB/s copied by one thread\n", copied / 1e9);
  const StatusOr<std::vector<Gpu>> gpus = findGpus(options.libraries);
  ThreadPool pool(std::max(1U, std::thread::hardware_concurrency()));
  const double updated = updatedBytesPerSecond(pool), share = gpus.isOk() ? double(gpus->size()) : 1.0;
  links.push_back({"cores", "memory", date, updated / share, updated / share});
  text += fmt::format("cores   {:.2f} GB/s read and written by {} threads{}\n", updated / 1e9, pool.threads(),
                      share > 1 ? fmt::format(", {:.2f} for each of {} GPUs", updated / share / 1e9, share) : "");
  if (gpus.isOk()) {
    ZTC_ASSIGN_OR_RETURN(const CudaLinkRates gpu, measureCudaLink(options.libraries));
    links.push_back({"gpu", gpu.gpu, date, gpu.inBytesPerSecond, gpu.outBytesPerSecond});
    text += fmt::format("gpu     {:.2f} GB/s in, {:.2f} GB/s out: page-locked memory and {}\n",
                        gpu.inBytesPerSecond / 1e9, gpu.outBytesPerSecond / 1e9, gpu.gpu);
  }
  if (options.folder.empty()) {
    text += "disk    not measured: name a folder with --disk=DIR\n";
  } else {
    ZTC_ASSIGN_OR_RETURN(const DiskRates rates,
                         measureDisk({.folder = options.folder, .run = "measure", .rank = 0, .engine = options.engine},
                                     uint64_t(256) << 20));
    links.push_back({"disk", options.folder, date, rates.readBytesPerSecond, rates.writeBytesPerSecond});
    text += fmt::format("disk    {:.2f} GB/s read, {:.2f} GB/s written in {} ({})\n", rates.readBytesPerSecond / 1e9,
                        rates.writeBytesPerSecond / 1e9, options.folder, rates.description);
  }
  if (options.file.empty())
    return text;
  ZTC_RETURN_IF_ERROR(keepMeasuredLinks(options.file, links).withContext("--measure-links"));
  return text + fmt::format("kept in {}: ztc compile, ztc memory and ztc plan go by it\n", options.file);
}

} // namespace ztc
