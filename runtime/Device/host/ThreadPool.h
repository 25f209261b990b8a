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

/// Piece `part` of `parts` nearly equal pieces of [0, extent), each but the last a multiple of `grain` long. A function
/// of its arguments alone: the same worker does the same work in every run.
WorkRange splitRange(uint64_t extent, uint64_t grain, uint32_t part, uint32_t parts);

/// T workers, the calling thread among them as worker 0. Workers spin for some tens of microseconds for the next job
/// (the steps of a program follow each other closely), then sleep. One caller at a time; jobs do not nest; jobs must
/// not throw.
class ThreadPool {
public:
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t threads() const { return threads_; }

  /// Calls body(worker, begin, end) for the worker's piece of [0, extent), see splitRange; returns when all are done.
  /// Nothing is allocated. A worker without work is not called; a range of one grain runs on the caller alone.
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

  /// Calls body(worker) once in every worker.
  template <typename Body> void forEachWorker(Body &&body) {
    parallelFor(threads_, 1, [&](uint32_t worker, uint64_t, uint64_t) { body(worker); });
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
    uint64_t grain = 1;
    uint32_t label = 0; ///< of a trace
  };
  void run(const Job &job);
  void work(const Job &job, uint32_t worker) const;
  void loop(uint32_t worker);

  const uint32_t threads_;
  Job job_; ///< written by the caller before epoch_ moves, read by workers after
  bool stopping_ = false;
  TraceRecorder *trace_ = nullptr;
  uint32_t firstTrack_ = 0; ///< worker 0's
  /// Two counters on two cache lines: the caller writes one, the workers the other.
  alignas(64) std::atomic<int> epoch_{0};
  alignas(64) std::atomic<int> remaining_{0};
  std::vector<std::thread> workers_;
};

} // namespace ztc
