#include "runtime/Device/host/ThreadPool.h"
#include <immintrin.h>
#include <string>

namespace ztc {

WorkRange splitRange(uint64_t extent, uint64_t grain, uint32_t part, uint32_t parts) {
  uint64_t units = (extent + grain - 1) / grain;
  auto boundary = [&](uint64_t index) {
    // units * index may not overflow: both factors come from plans, so they are split into quotient and rest.
    uint64_t unit = units / parts * index + units % parts * index / parts;
    uint64_t at = unit * grain;
    return at < extent ? at : extent;
  };
  return {boundary(part), boundary(part + 1)};
}

/// Spins before sleeping: about 40 us on AMD, 100 us on Intel, whose `pause` is longer.
static constexpr int kSpins = 2000;

/// Waits until `value` differs from `old` and returns the new value.
static int awaitChange(std::atomic<int> &value, int old) {
  for (int i = 0; i < kSpins; ++i) {
    int now = value.load(std::memory_order_acquire);
    if (now != old)
      return now;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads == 0 ? 1 : threads) {
  workers_.reserve(threads_ - 1);
  for (uint32_t worker = 1; worker < threads_; ++worker)
    workers_.emplace_back([this, worker] { loop(worker); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread &worker : workers_)
    worker.join();
}

void ThreadPool::setTrace(TraceRecorder *trace) {
  trace_ = trace;
  if (!trace)
    return;
  for (uint32_t worker = 0; worker < threads_; ++worker) {
    uint32_t track = trace->addTrack("worker " + std::to_string(worker));
    if (worker == 0)
      firstTrack_ = track;
  }
}

void ThreadPool::work(const Job &job, uint32_t worker) const {
  WorkRange range = splitRange(job.extent, job.grain, worker, threads_);
  if (range.empty())
    return;
  Traced traced(*this, worker, job.label);
  job.call(job.context, worker, range.begin, range.end);
}

void ThreadPool::run(const Job &job) {
  job_ = job;
  remaining_.store(int(threads_) - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all(); // no system call unless somebody sleeps
  work(job, 0);
  int left = remaining_.load(std::memory_order_acquire);
  while (left != 0)
    left = awaitChange(remaining_, left);
}

void ThreadPool::loop(uint32_t worker) {
  int seen = 0;
  while (true) {
    seen = awaitChange(epoch_, seen);
    if (stopping_)
      return;
    work(job_, worker);
    remaining_.fetch_sub(1, std::memory_order_acq_rel);
    remaining_.notify_one();
  }
}

} // namespace ztc
