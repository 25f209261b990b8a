// The stand-in driver's streams and events, and what its streams note instead of doing while they are captured.
#pragma once
#include "runtime/Device/cuda/CudaApi.h"
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ztc::standin {

/// A piece of work in a graph and the earlier ones that come before it.
struct GraphNode {
  std::function<void()> work;
  std::vector<size_t> after;
};

/// What streams note from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
  CUstream_st *origin = nullptr;
  std::thread::id thread;
  std::vector<CUstream_st *> streams; ///< that take part
  std::vector<GraphNode> nodes;
  bool isBroken = false;
  bool hasEnded = false;
};

/// A place in a capture: after these nodes.
struct CapturePoint {
  std::shared_ptr<Capture> capture; ///< null: none
  std::vector<size_t> after;
};

/// An event: how often it was recorded, and how many of these have happened. Lives as long as somebody waits for it.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, happened = 0;
  std::chrono::steady_clock::time_point at; ///< when it happened last
  double stated = 0;                        ///< then: milliseconds of all work of its stream that stated its time
  bool hasTime = false;
  CapturePoint captured; ///< where it was recorded last, if that was in a capture
};

// Of captures: all with one mutex of their own. They return an error for what the real driver would refuse, and say
// why on stderr.

/// Notes `work` where the stream is captured; false: it is not.
bool noteWork(cuda::Stream stream, const std::function<void()> &work, cuda::Result &result);
/// The same for events. False: neither has to do with a capture.
bool noteRecord(cuda::Stream stream, EventState &event, cuda::Result &result);
bool noteWait(cuda::Stream stream, EventState &event, cuda::Result &result);
/// Refuses to wait on the host for what is captured.
cuda::Result mayWait(cuda::Stream stream);
cuda::Result mayWait(EventState &event);
/// Refuses what this thread may not do while it captures: allocations, modules.
cuda::Result mayChange(const char *call);

/// Gives `work` to the stream, or has it noted; it is left out when something has failed by then.
cuda::Result later(cuda::Stream stream, std::function<void()> work);

} // namespace ztc::standin

struct CUevent_st {
  std::shared_ptr<ztc::standin::EventState> state = std::make_shared<ztc::standin::EventState>();
};

/// A stream: a queue and the thread that serves it.
struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, ending = false;
  ztc::standin::CapturePoint captured;
  std::thread thread{[this] { serve(); }};

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty())
        return;
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void give(std::function<void()> work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
  ~CUstream_st() {
    drain();
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
  }
};
