// Several ranks as threads of a test.
#pragma once
#include "runtime/Ranks/ThreadChannels.h"
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ztc::test {

/// Runs `body` once for each rank, at the same time, and gives what each returned. A rank that fails tells the others,
/// as ztc-run does: none waits for it. One that hangs is found after a while.
inline std::vector<Status> runRanks(uint32_t world, const std::function<Status(ControlChannel &)> &body) {
  constexpr double kSecondsToHang = 30;
  auto channels = createThreadChannels(world, kSecondsToHang);
  if (!channels.isOk())
    return std::vector<Status>(world, channels.status());
  std::vector<Status> results(world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      ControlChannel &control = *(*channels)[rank];
      results[rank] = body(control);
      if (results[rank].isOk())
        results[rank] = control.finish();
      else
        (void)control.fail(results[rank]);
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

/// The message of the first rank that failed, or "ok".
inline std::string firstMessage(const std::vector<Status> &results) {
  for (const Status &result : results)
    if (!result.isOk())
      return result.message() + " (an error)";
  return "ok";
}

} // namespace ztc::test
