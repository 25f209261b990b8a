// The host device's only threads.
#pragma once
#include "runtime/Device/Trace.h"
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace ztc {

/// A contiguous piece [begin, end) of a parallel range.
struct WorkRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin == end; }
};

/// Piece `part` of `parts` nearly equal pieces of [0, extent), each but the last a multiple of `grain` long.
WorkRange splitRange(uint64_t extent, uint64_t grain, uint32_t part, uint32_t parts);

/// T workers, the calling thread among them as worker 0. Workers spin for some tens of microseconds for the next job
/// (the steps of a program follow each other closely), then sleep. One caller at a time; jobs do not nest; jobs must
/// not throw.
///
/// A job is cut into one part per worker. A worker takes pieces from the front of its own part, so that it meets again
/// what it has in its cache, then from the end of others'. A job is over when all pieces are done: nobody waits for a
/// worker that has not begun, because it sleeps or its core does something else.
class ThreadPool {
public:
  /// Throws std::system_error where the system starts no more threads.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t threads() const { return threads_; }

  /// Calls body(worker, begin, end) for pieces of [0, extent), each but the last a multiple of `grain` long, until all
  /// of it is done. Which pieces there are, how many a worker gets and in which order is not known before; at any time
  /// a worker is in one of them at most. Nothing is allocated. A range of one grain runs on the caller alone.
  template <typename Body> void parallelFor(uint64_t extent, uint64_t grain, Body &&body) {
    if (extent == 0)
      return;
    if (threads_ == 1 || extent <= grain) {
      Traced traced(*this, 0, TraceRecorder::currentLabel);
      body(uint32_t(0), uint64_t(0), extent);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    run({[](void *context, uint32_t worker, uint64_t begin, uint64_t end) {
           (*static_cast<Plain *>(context))(worker, begin, end);
         },
         const_cast<std::remove_const_t<Plain> *>(&body), extent, grain, TraceRecorder::currentLabel});
  }

  /// Calls task(worker, index) for all indices below `count`.
  template <typename Task> void forEach(uint64_t count, Task &&task) {
    parallelFor(count, 1, [&](uint32_t worker, uint64_t begin, uint64_t end) {
      for (uint64_t index = begin; index < end; ++index)
        task(worker, index);
    });
  }

  /// Adds one track per worker; jobs get the name of the step that the caller is at. Null ends it. Between jobs.
  void setTrace(TraceRecorder *trace);

private:
  /// Records the time between its two ends.
  class Traced {
  public:
    Traced(const ThreadPool &pool, uint32_t worker, uint32_t label)
        : pool_(pool), worker_(worker), label_(label), begin_(pool.trace_ ? traceClock() : 0) {}
    ~Traced() {
      if (pool_.trace_)
        pool_.trace_->record(pool_.firstTrack_ + worker_, label_, begin_, traceClock());
    }

  private:
    const ThreadPool &pool_;
    uint32_t worker_, label_;
    uint64_t begin_;
  };
  struct Job {
    void (*call)(void *context, uint32_t worker, uint64_t begin, uint64_t end) = nullptr;
    void *context = nullptr;
    uint64_t extent = 0;
    uint64_t unit = 1;  ///< elements, a multiple of the grain
    uint32_t label = 0; ///< of a trace
  };
  /// What is left of a worker's part, in units, and how many units a piece has at least: 24, 24 and 16 bits.
  struct alignas(64) Part {
    std::atomic<uint64_t> left{0};
  };
  void stop();
  void run(Job job);
  void work(uint32_t worker);
  WorkRange take(uint32_t worker);
  void loop(uint32_t worker);

  const uint32_t threads_;
  /// Written by the caller when no unit is left. Read by whoever has taken a piece and not reported it done: then no
  /// other job can follow.
  Job job_;
  TraceRecorder *trace_ = nullptr;
  uint32_t firstTrack_ = 0; ///< worker 0's
  std::atomic<bool> stopping_{false};
  /// Counters on cache lines of their own: jobs so far, units of this one that are not done.
  alignas(64) std::atomic<int> epoch_{0};
  alignas(64) std::atomic<int> remaining_{0};
  std::vector<Part> parts_; ///< by worker
  std::vector<std::thread> workers_;
};

} // namespace ztc
