// A further stream of the host: a queue, of collectives or of moves, and the one thread that serves it.
#pragma once
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/Status.h"
#include "runtime/Device/Trace.h"
#include "runtime/Ranks/ProgressBoard.h"
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ztc {

/// What the stream's thread runs.
class StreamTask {
public:
  virtual ~StreamTask() = default;
  /// The plan step's name; belongs to the plan.
  virtual const char *name() const = 0;
  /// What is aborted to end it; null: it ends by itself.
  virtual Communicator *communicator() const = 0;
  /// Is told that this collective runs; may be null.
  virtual ProgressBoard *board() const = 0;
  virtual Status run() = 0;
};

/// Stream 0 is the thread that calls the device: what it is given is done when the call returns. Streams 1 and 2 are a
/// queue in order each. So an event of stream 0 has always happened when somebody waits for it, and one of another is a
/// position in its queue. All members but inFlight are for the thread of stream 0.
///
/// After an error of a task the later ones are not run; every wait returns the error.
class HostStreams {
public:
  /// `track` is the stream's name in traces, a literal.
  explicit HostStreams(const char *track = "stream 1: communication") : trackName_(track) {}
  /// Ends what is under way: see abandon().
  ~HostStreams();
  HostStreams(const HostStreams &) = delete;
  HostStreams &operator=(const HostStreams &) = delete;

  /// Makes the thread, once: before the first enqueue.
  void start();
  bool isStarted() const { return thread_.joinable(); }
  /// Room for this event: before record and wait name it.
  void reserveEvent(uint32_t event);

  /// Records tasks on a track of its own from now on; null ends it. Only while the queue is empty.
  void setTrace(TraceRecorder *trace);

  /// Puts a task at the end of the queue; waits where the queue is full. The task must live until it has run. Allocates
  /// nothing.
  Status enqueue(StreamTask &task);
  /// Marks what the queue has been given so far.
  void record(uint32_t event) { events_[event] = given_; }
  /// Returns when what the event marks is done, or at once where it was never recorded.
  Status wait(uint32_t event) { return waitUntil(events_[event]); }
  /// Returns when the queue is empty.
  Status drain() { return waitUntil(given_); }
  /// Aborts the communicator of what is under way, if anything is, and drains.
  void abandon(const std::string &reason);

private:
  Status waitUntil(uint64_t position);
  void serve();

  static constexpr uint64_t kCapacity = 256;
  struct Entry {
    StreamTask *task;
    uint32_t label; ///< of the trace
  };
  std::array<Entry, kCapacity> ring_{};
  std::vector<uint64_t> events_; ///< by event: the position it marks
  uint64_t given_ = 0;           ///< tasks that it was given since it exists
  Communicator *last_ = nullptr; ///< of the task given last
  const char *const trackName_;
  TraceRecorder *trace_ = nullptr;
  uint32_t track_ = 0;

  // Both sides sleep on 32-bit counters, on which the kernel can wait; positions never wrap.
  alignas(64) std::atomic<uint64_t> published_{0}; ///< == given_, for the stream's thread
  std::atomic<uint32_t> work_{0};                  ///< moves with published_ and at the end
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint64_t> done_{0};
  std::atomic<uint32_t> progress_{0}; ///< moves with done_
  std::atomic<bool> failed_{false};
  std::mutex mutex_; ///< of error_
  Status error_;
  std::thread thread_;
};

} // namespace ztc
