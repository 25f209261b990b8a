#include "runtime/Device/host/ThreadPool.h"
#include <algorithm>
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

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads == 0 ? 1 : threads), parts_(threads_) {
  workers_.reserve(threads_ - 1);
  try {
    for (uint32_t worker = 1; worker < threads_; ++worker)
      workers_.emplace_back([this, worker] { loop(worker); });
  } catch (...) { // the system starts no more: who asked for them says so
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
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

namespace {

/// A part has at most so many pieces, or one more; the last ones are the smallest, so that workers end together.
constexpr uint64_t kPieces = 8;
/// Of all parts of a job; pieces have at least 1/kPieces of them.
constexpr uint64_t kMostUnits = 1 << 18;

struct PartLeft {
  uint64_t begin, end, smallest;

  static PartLeft unpack(uint64_t bits) { return {bits & 0xffffff, bits >> 24 & 0xffffff, bits >> 48}; }
  uint64_t pack() const { return begin | end << 24 | smallest << 48; }
};

} // namespace

/// A piece for this worker, in units; empty if none is left.
WorkRange ThreadPool::take(uint32_t worker) {
  for (uint32_t i = 0; i < threads_; ++i) {
    std::atomic<uint64_t> &part = parts_[(worker + i) % threads_].left;
    uint64_t bits = part.load(std::memory_order_relaxed);
    while (true) {
      PartLeft left = PartLeft::unpack(bits);
      if (left.begin == left.end)
        break;
      const uint64_t length = left.end - left.begin, units = std::min(length, std::max(left.smallest, length / 3));
      WorkRange piece;
      if (i == 0) {
        piece = {left.begin, left.begin + units};
        left.begin += units;
      } else {
        piece = {left.end - units, left.end};
        left.end -= units;
      }
      // Acquires the job, of which this may be another one than when `bits` was read: then it is as good.
      if (part.compare_exchange_weak(bits, left.pack(), std::memory_order_acquire, std::memory_order_relaxed))
        return piece;
    }
  }
  return {};
}

void ThreadPool::work(uint32_t worker) {
  WorkRange piece = take(worker);
  if (piece.empty())
    return;
  int done = 0;
  {
    Traced traced(*this, worker, job_.label);
    for (; !piece.empty(); piece = take(worker)) {
      job_.call(job_.context, worker, piece.begin * job_.unit, std::min(piece.end * job_.unit, job_.extent));
      done += int(piece.end - piece.begin);
    }
  }
  if (remaining_.fetch_sub(done, std::memory_order_acq_rel) == done)
    remaining_.notify_one();
}

void ThreadPool::run(Job job) {
  const uint64_t grains = (job.extent + job.unit - 1) / job.unit;
  job.unit *= (grains + kMostUnits - 1) / kMostUnits;
  const uint64_t units = (job.extent + job.unit - 1) / job.unit;
  job_ = job;
  remaining_.store(int(units), std::memory_order_relaxed);
  for (uint32_t worker = 0; worker < threads_; ++worker) {
    const WorkRange part = splitRange(units, 1, worker, threads_);
    const uint64_t smallest = (part.end - part.begin + kPieces - 1) / kPieces;
    parts_[worker].left.store(PartLeft{part.begin, part.end, smallest}.pack(), std::memory_order_release);
  }
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all(); // no system call unless somebody sleeps
  work(0);
  int left = remaining_.load(std::memory_order_acquire);
  while (left != 0)
    left = awaitChange(remaining_, left);
}

void ThreadPool::loop(uint32_t worker) {
  int seen = 0;
  while (true) {
    seen = awaitChange(epoch_, seen);
    if (stopping_.load(std::memory_order_relaxed))
      return;
    work(worker);
  }
}

} // namespace ztc
