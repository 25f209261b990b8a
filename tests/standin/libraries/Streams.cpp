// Streams and events of the stand-in driver.
#include "tests/standin/libraries/Streams.h"
#include "tests/standin/libraries/Driver.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>

using namespace ztc;
using cuda::Result;
using namespace ztc::standin;

namespace {

thread_local double statedMilliseconds = 0; ///< of the stream that this thread serves

} // namespace

namespace ztc::standin {

bool knowsStream(CUstream_st *stream) {
  std::lock_guard lock(driver().mutex);
  return driver().streams.count(stream) != 0;
}
bool knowsEvent(CUevent_st *event) {
  std::lock_guard lock(driver().mutex);
  return driver().events.count(event) != 0;
}

void drainAll() {
  std::vector<std::shared_ptr<CUstream_st>> streams;
  {
    std::lock_guard lock(driver().mutex);
    for (const auto &[handle, stream] : driver().streams)
      streams.push_back(stream);
  }
  for (const std::shared_ptr<CUstream_st> &stream : streams)
    stream->drain();
}

Result later(cuda::Stream stream, std::function<void()> work) {
  if (Result result = ready(); result != cuda::kSuccess)
    return result;
  if (!knowsStream(stream))
    return cuda::kInvalidHandle;
  const auto unlessFailed = [work = std::move(work)] {
    if (driver().sticky == cuda::kSuccess)
      work();
  };
  Result result = cuda::kSuccess;
  if (!noteWork(stream, unlessFailed, result))
    stream->give(unlessFailed);
  return result;
}

bool enqueue(cuda::Stream stream, std::function<void()> work) {
  return later(stream, std::move(work)) == cuda::kSuccess;
}

void stateTime(double milliseconds) {
  statedMilliseconds += milliseconds;
}

} // namespace ztc::standin

namespace ztc::cuda {
extern "C" {

Result cuLaunchHostFunc(Stream stream, void (*function)(void *data), void *data) {
  return function ? later(stream, [=] { function(data); }) : kInvalidValue;
}
Result cuStreamCreateWithPriority(Stream *stream, unsigned flags, int) {
  if (Result result = ready(); result != kSuccess)
    return result;
  if (flags != kStreamNonBlocking)
    return kInvalidValue; // others wait for the null stream, which nobody uses here
  auto made = std::make_shared<CUstream_st>();
  *stream = made.get();
  std::lock_guard lock(driver().mutex);
  driver().streams[*stream] = std::move(made);
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream stream) {
  std::shared_ptr<CUstream_st> last; // its end waits for its work: not with the mutex held
  std::lock_guard lock(driver().mutex);
  auto found = driver().streams.find(stream);
  if (found == driver().streams.end())
    return kInvalidHandle;
  last = std::move(found->second);
  driver().streams.erase(found);
  return kSuccess;
}
Result cuStreamSynchronize(Stream stream) {
  if (!knowsStream(stream))
    return kInvalidHandle;
  if (Result result = mayWait(stream); result != kSuccess)
    return result;
  stream->drain();
  return ready();
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  if (!knowsStream(stream) || !knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = kSuccess; noteWait(stream, *state, result))
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = state->recorded;
  lock.unlock();
  if (turn == 0)
    return ready(); // never recorded: nothing to wait for
  stream->give([state, turn] {
    std::unique_lock inner(state->mutex);
    state->changed.wait(inner, [&] { return state->happened >= turn; });
  });
  return ready();
}
Result cuEventCreate(Event *event, unsigned flags) {
  if (Result result = ready(); result != kSuccess)
    return result;
  *event = new CUevent_st;
  (*event)->state->hasTime = !(flags & kEventDisableTiming);
  std::lock_guard lock(driver().mutex);
  driver().events.insert(*event);
  return kSuccess;
}
Result cuEventDestroy_v2(Event event) {
  std::lock_guard lock(driver().mutex);
  if (!driver().events.erase(event))
    return kInvalidHandle;
  delete event;
  return kSuccess;
}
Result cuEventRecord(Event event, Stream stream) {
  if (!knowsStream(stream) || !knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = kSuccess; noteRecord(stream, *state, result))
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = ++state->recorded;
  lock.unlock();
  // Also after a failure: nobody waits for ever.
  stream->give([state, turn] {
    std::lock_guard inner(state->mutex);
    state->happened = std::max(state->happened, turn);
    state->at = std::chrono::steady_clock::now();
    state->stated = statedMilliseconds;
    state->changed.notify_all();
  });
  return ready();
}
Result cuEventSynchronize(Event event) {
  if (!knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = mayWait(*state); result != kSuccess)
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = state->recorded;
  state->changed.wait(lock, [&] { return state->happened >= turn; });
  return ready();
}
Result cuEventElapsedTime(float *milliseconds, Event from, Event to) {
  std::chrono::steady_clock::time_point at[2];
  double stated[2];
  int i = 0;
  for (Event event : {from, to}) {
    if (!knowsEvent(event) || !event->state->hasTime || event->state->captured.capture)
      return kInvalidHandle;
    std::lock_guard lock(event->state->mutex);
    if (event->state->recorded == 0)
      return kInvalidHandle;
    if (event->state->happened < event->state->recorded)
      return kNotReady;
    at[i] = event->state->at;
    stated[i++] = event->state->stated;
  }
  *milliseconds = stated[0] != stated[1] ? float(stated[1] - stated[0])
                                         : std::chrono::duration<float, std::milli>(at[1] - at[0]).count();
  return ready();
}

} // extern "C"
} // namespace ztc::cuda
