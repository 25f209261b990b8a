#include "runtime/Tools/Links.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Disk/DiskSpace.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
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

StatusOr<std::string> linkReport(const std::string &folder, const std::string &engine) {
  std::string text = fmt::format("memory  {:.2f} GB/s copied by one thread\n", copyBytesPerSecond() / 1e9);
  if (folder.empty())
    return text + "disk    not measured: name a folder with --disk=DIR\n";
  ZTC_ASSIGN_OR_RETURN(
      const DiskRates rates,
      measureDisk({.folder = folder, .run = "measure", .rank = 0, .engine = engine}, uint64_t(256) << 20));
  return text + fmt::format("disk    {:.2f} GB/s read, {:.2f} GB/s written in {} ({})\n",
                            rates.readBytesPerSecond / 1e9, rates.writeBytesPerSecond / 1e9, folder, rates.description);
}

} // namespace ztc
