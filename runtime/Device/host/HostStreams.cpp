#include "runtime/Device/host/HostStreams.h"
#include "runtime/Core/NamedRange.h"

namespace ztc {

HostStreams::~HostStreams() {
  if (!thread_.joinable())
    return;
  abandon("the device is gone");
  stopping_.store(true, std::memory_order_release);
  work_.fetch_add(1, std::memory_order_release);
  work_.notify_one();
  thread_.join();
}

void HostStreams::start() {
  if (!thread_.joinable())
    thread_ = std::thread([this] { serve(); });
}

void HostStreams::setTrace(TraceRecorder *trace) {
  trace_ = trace;
  if (trace)
    track_ = trace->addTrack(trackName_);
}

void HostStreams::reserveEvent(uint32_t event) {
  if (events_.size() <= event)
    events_.resize(size_t(event) + 1);
}

Status HostStreams::enqueue(StreamTask &task) {
  if (given_ >= kCapacity)
    ZTC_RETURN_IF_ERROR(waitUntil(given_ - kCapacity + 1));
  ring_[given_ % kCapacity] = {&task, TraceRecorder::currentLabel};
  last_ = task.communicator();
  published_.store(++given_, std::memory_order_release);
  work_.fetch_add(1, std::memory_order_release);
  work_.notify_one();
  return Status::ok();
}

Status HostStreams::waitUntil(uint64_t position) {
  while (done_.load(std::memory_order_acquire) < position) {
    const uint32_t seen = progress_.load(std::memory_order_acquire);
    if (done_.load(std::memory_order_acquire) >= position)
      break;
    progress_.wait(seen, std::memory_order_acquire);
  }
  if (!failed_.load(std::memory_order_acquire))
    return Status::ok();
  std::lock_guard lock(mutex_);
  return error_;
}

void HostStreams::abandon(const std::string &reason) {
  if (done_.load(std::memory_order_acquire) < given_ && last_)
    last_->abort(reason);
  static_cast<void>(drain().isOk()); // the error that led here is the one that counts
}

void HostStreams::serve() {
  for (uint64_t next = 0;; ++next) {
    while (published_.load(std::memory_order_acquire) <= next) {
      const uint32_t seen = work_.load(std::memory_order_acquire);
      if (published_.load(std::memory_order_acquire) > next)
        break;
      if (stopping_.load(std::memory_order_acquire))
        return;
      work_.wait(seen, std::memory_order_acquire);
    }
    const Entry entry = ring_[next % kCapacity];
    StreamTask &task = *entry.task;
    if (!failed_.load(std::memory_order_relaxed)) {
      if (ProgressBoard *board = task.board())
        board->beginCollective(task.name());
      const uint64_t begin = trace_ ? traceClock() : 0;
      const NamedRange range(task.name());
      Status status = task.run();
      if (trace_)
        trace_->record(track_, entry.label, begin, traceClock());
      if (ProgressBoard *board = task.board(); board && status.isOk())
        board->endCollective(); // where it failed, the board goes on saying in what
      if (!status.isOk()) {
        std::lock_guard lock(mutex_);
        error_ = std::move(status);
        failed_.store(true, std::memory_order_release);
      }
    }
    done_.store(next + 1, std::memory_order_release);
    progress_.fetch_add(1, std::memory_order_release);
    progress_.notify_all();
  }
}

} // namespace ztc
