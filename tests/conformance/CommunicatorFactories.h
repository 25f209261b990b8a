// Ways to make the communicators of a world in one process, and a thread for each of them.
#pragma once
#include "runtime/Collective/Communicators.h"
#include <chrono>
#include <condition_variable>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ztc::test {

/// The communicators of all ranks. `inner` are those below a decorator.
struct Ranks {
  std::vector<std::unique_ptr<Communicator>> inner;
  std::vector<std::unique_ptr<Communicator>> outer;
};

struct CommunicatorFactory {
  const char *name;
  std::function<StatusOr<Ranks>(uint32_t world)> make;
};

/// A key-value store of one process.
class LocalStore {
public:
  RendezvousStore callbacks() {
    return {[this](const std::string &key, const std::string &value) {
              std::lock_guard lock(mutex_);
              values_[key] = value;
              changed_.notify_all();
              return Status::ok();
            },
            [this](const std::string &key, uint64_t timeoutMs) -> StatusOr<std::string> {
              std::unique_lock lock(mutex_);
              if (!changed_.wait_for(lock, std::chrono::milliseconds(timeoutMs), [&] { return values_.contains(key); }))
                return unavailable("nobody has set " + key);
              return values_[key];
            }};
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// Runs `body(rank)` in a thread per rank. Where they are not done after `limit`, all communicators are aborted and
/// the test fails: a test never hangs.
inline void onAllRanks(const std::vector<std::unique_ptr<Communicator>> &ranks,
                       const std::function<void(uint32_t rank, Communicator &communicator)> &body,
                       std::chrono::seconds limit = std::chrono::seconds(30)) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;
  std::vector<std::thread> threads;
  for (const auto &communicator : ranks)
    threads.emplace_back([&] {
      body(communicator->rank(), *communicator);
      std::lock_guard lock(mutex);
      ++done;
      changed.notify_all();
    });
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, limit, [&] { return done == ranks.size(); })) {
      ADD_FAILURE() << "ranks still wait after " << limit.count() << " s";
      for (const auto &communicator : ranks)
        if (communicator)
          communicator->abort("the test took too long");
    }
  }
  for (std::thread &thread : threads)
    thread.join();
}

inline StatusOr<Ranks> makeThreads(uint32_t world) {
  Ranks ranks;
  ranks.outer = createThreadCommunicators(world);
  return StatusOr<Ranks>(std::move(ranks));
}

inline StatusOr<Ranks> makeSleeping(uint32_t world) {
  Ranks ranks;
  ranks.inner = createThreadCommunicators(world);
  for (const auto &communicator : ranks.inner)
    ranks.outer.push_back(createSleepingCommunicator(*communicator, 20e9));
  return StatusOr<Ranks>(std::move(ranks));
}

inline StatusOr<Ranks> makeGloo(uint32_t world) {
  LocalStore store;
  Ranks ranks;
  ranks.outer.resize(world);
  std::vector<Status> failures(world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      GlooOptions options;
      options.rank = rank;
      options.world = world;
      options.address = "127.0.0.1";
      options.timeoutMs = 20000;
      options.store = store.callbacks();
      auto made = createGlooCommunicator(options);
      if (made.isOk())
        ranks.outer[rank] = std::move(*made);
      else
        failures[rank] = made.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &failure : failures)
    ZTC_RETURN_IF_ERROR(failure);
  return StatusOr<Ranks>(std::move(ranks));
}

} // namespace ztc::test
