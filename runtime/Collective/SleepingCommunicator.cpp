// A slow network for tests: the inner communicator and a sleep after each of its collectives.
#include "runtime/Collective/Communicators.h"
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ztc {
namespace {

class SleepingCommunicator : public Communicator {
public:
  SleepingCommunicator(Communicator &inner, double bytesPerSecond)
      : Communicator(inner.rank(), inner.world()), inner_(inner), bytesPerSecond_(bytesPerSecond) {}

  std::string name() const override { return inner_.name(); }
  std::string description() const override {
    return inner_.description() + ", slowed to " + std::to_string(bytesPerSecond_ / 1e9) + " GB/s";
  }
  uint32_t multiprocessors() const override { return inner_.multiprocessors(); }
  Status registerMemory(std::byte *base, uint64_t bytes) override { return inner_.registerMemory(base, bytes); }
  Status allGather(const void *shard, void *full, uint64_t shardElements, plan::DataType type,
                   const CollectiveCall &call) override {
    return slowly(inner_.allGather(shard, full, shardElements, type, call));
  }
  Status reduceScatter(void *full, uint64_t shardElements, plan::DataType type, void *scratch, uint64_t scratchBytes,
                       const CollectiveCall &call) override {
    return slowly(inner_.reduceScatter(full, shardElements, type, scratch, scratchBytes, call));
  }
  Status allReduce(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                   const CollectiveCall &call) override {
    return slowly(inner_.allReduce(values, count, scratch, scratchBytes, call));
  }
  Status allReduceMax(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                      const CollectiveCall &call) override {
    return slowly(inner_.allReduceMax(values, count, scratch, scratchBytes, call));
  }
  Status barrier(const CollectiveCall &call) override { return slowly(inner_.barrier(call)); }
  Status groupBegin() override { return inner_.groupBegin(); }
  Status groupEnd() override { return inner_.groupEnd(); }
  Status status() const override { return inner_.status(); }
  void abort(const std::string &reason) override {
    inner_.abort(reason);
    std::lock_guard lock(mutex_);
    aborted_ = true;
    wakeUp_.notify_all();
  }

private:
  /// Sleeps for what the collective sent since the last one.
  Status slowly(Status status) {
    const Traffic now = inner_.traffic();
    const uint64_t sent = now.sentBytes() + now.allReduce - slept_;
    slept_ += sent;
    allGatherBytes_.store(now.allGather, std::memory_order_relaxed);
    reduceScatterBytes_.store(now.reduceScatter, std::memory_order_relaxed);
    allReduceBytes_.store(now.allReduce, std::memory_order_relaxed);
    if (!status.isOk())
      return status;
    std::unique_lock lock(mutex_);
    wakeUp_.wait_for(lock, std::chrono::duration<double>(double(sent) / bytesPerSecond_), [&] { return aborted_; });
    return aborted_ ? inner_.status() : status;
  }

  Communicator &inner_;
  const double bytesPerSecond_;
  uint64_t slept_ = 0; ///< bytes
  std::mutex mutex_;
  std::condition_variable wakeUp_;
  bool aborted_ = false;
};

} // namespace

std::unique_ptr<Communicator> createSleepingCommunicator(Communicator &inner, double bytesPerSecond) {
  return std::make_unique<SleepingCommunicator>(inner, bytesPerSecond);
}

} // namespace ztc
