#include "runtime/Core/BackgroundWriter.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace {

/// A write waits until all of it is taken: more would hide that the reader goes on.
constexpr size_t kPieceBytes = 4096;

} // namespace

struct BackgroundWriter::State {
  const int descriptor;
  const size_t capacityBytes;
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;   ///< not begun
  size_t underWay = 0;   ///< of what the thread writes now
  uint64_t progress = 0; ///< counts writes that took something
  int error = 0;
  bool ends = false;
  std::thread thread;

  State(int descriptor, size_t capacityBytes) : descriptor(descriptor), capacityBytes(capacityBytes) {}
  void serve();
};

void BackgroundWriter::State::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return !waiting.empty() || ends; });
    if (waiting.empty())
      return;
    const std::string text = std::exchange(waiting, {});
    size_t written = 0;
    while (written < text.size() && !error) {
      underWay = text.size() - written;
      lock.unlock();
      const ssize_t count = ::write(descriptor, text.data() + written, std::min(kPieceBytes, text.size() - written));
      const int number = errno;
      lock.lock();
      if (count > 0)
        written += size_t(count);
      else if (count < 0 && number == EAGAIN) // made so by another program that shares it
        changed.wait_for(lock, std::chrono::milliseconds(50));
      else if (count == 0 || number != EINTR)
        error = count == 0 ? EIO : number;
      progress += count > 0;
      changed.notify_all();
    }
    underWay = 0;
    changed.notify_all();
  }
}

BackgroundWriter::BackgroundWriter(int descriptor, size_t capacityBytes)
    : state_(std::make_shared<State>(descriptor, capacityBytes)) {
  // Signals are for the threads that know what to do. A closed pipe is an error here, no signal, and a program in the
  // background may write.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->thread = std::thread([state = state_] { state->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BackgroundWriter::~BackgroundWriter() {
  end(kPatienceSeconds);
}

bool BackgroundWriter::write(std::string_view text) {
  std::lock_guard lock(state_->mutex);
  if (state_->error || state_->underWay + state_->waiting.size() + text.size() > state_->capacityBytes)
    return false;
  state_->waiting += text;
  state_->changed.notify_all();
  return true;
}

size_t BackgroundWriter::pendingBytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->underWay + state_->waiting.size();
}

int BackgroundWriter::error() const {
  std::lock_guard lock(state_->mutex);
  return state_->error;
}

bool BackgroundWriter::end(double patienceSeconds) {
  std::unique_lock lock(state_->mutex);
  if (!state_->thread.joinable())
    return state_->waiting.empty() && !state_->underWay;
  state_->ends = true;
  state_->changed.notify_all();
  const auto isEmpty = [&] { return state_->error != 0 || (state_->waiting.empty() && state_->underWay == 0); };
  while (!isEmpty()) {
    const uint64_t before = state_->progress;
    if (!state_->changed.wait_for(lock, std::chrono::duration<double>(patienceSeconds),
                                  [&] { return isEmpty() || state_->progress != before; }))
      break;
  }
  const bool isDone = isEmpty();
  if (state_->error)
    state_->waiting.clear();
  std::thread thread = std::move(state_->thread);
  lock.unlock();
  if (isDone)
    thread.join();
  else
    thread.detach(); // it stands in a write that may never end; the process can
  return isDone;
}

} // namespace ztc
