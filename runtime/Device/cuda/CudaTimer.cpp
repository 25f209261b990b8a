#include "runtime/Device/cuda/CudaTimer.h"

namespace ztc {

CudaStopwatch::~CudaStopwatch() {
  for (cuda::Event event : {begin_, end_})
    if (event)
      driver_.cuEventDestroy_v2(event);
}

Status CudaStopwatch::create() {
  for (cuda::Event *event : {&begin_, &end_})
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(event, cuda::kEventDefault), "cuEventCreate"));
  return Status::ok();
}

StatusOr<double> CudaStopwatch::seconds(const std::function<Status()> &work) {
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(begin_, stream_), "cuEventRecord"));
  ZTC_RETURN_IF_ERROR(work());
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(end_, stream_), "cuEventRecord"));
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventSynchronize(end_), "cuEventSynchronize"));
  float milliseconds = 0;
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime"));
  return double(milliseconds) / 1000;
}

TimedStep::TimedStep(std::unique_ptr<DeviceStep> step, const CudaPrepare &from, CudaTimer &timer)
    : step_(std::move(step)), driver_(from.resources.driver), timer_(timer), stream_(from.step.stream()),
      handle_(from.stream()) {}

TimedStep::~TimedStep() {
  for (cuda::Event event : {begin_, end_})
    if (event)
      driver_.cuEventDestroy_v2(event);
}

Status TimedStep::initialize(std::byte *arena) {
  for (cuda::Event *event : {&begin_, &end_})
    if (!*event)
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(event, cuda::kEventDefault), "cuEventCreate"));
  return step_->initialize(arena);
}

Status TimedStep::execute(uint32_t microstep) {
  label_ = TraceRecorder::currentLabel;
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(begin_, handle_), "cuEventRecord"));
  ZTC_RETURN_IF_ERROR(step_->execute(microstep));
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(end_, handle_), "cuEventRecord"));
  timer_.add(*this);
  return Status::ok();
}

CudaTimer::~CudaTimer() {
  if (base_)
    driver_.cuEventDestroy_v2(base_);
}

void CudaTimer::setTrace(TraceRecorder *trace) {
  trace_ = trace;
  if (!trace)
    return;
  tracks_[kComputeStream] = trace->addTrack("stream 0: compute");
  tracks_[kCommunicationStream] = trace->addTrack("stream 1: communication");
  tracks_[kMoveStream] = trace->addTrack("stream 2: moves");
}

Status CudaTimer::begin(cuda::Stream stream) {
  steps_.clear();
  if (!base_)
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(&base_, cuda::kEventDefault), "cuEventCreate"));
  baseClock_ = traceClock();
  return driver_.check(driver_.cuEventRecord(base_, stream), "cuEventRecord");
}

Status CudaTimer::collect() {
  const auto nanoseconds = [&](cuda::Event from, cuda::Event to, uint64_t &into) {
    float milliseconds = 0;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime"));
    into = milliseconds > 0 ? uint64_t(double(milliseconds) * 1e6) : 0;
    return Status::ok();
  };
  for (TimedStep *step : steps_) {
    uint64_t begin = 0, duration = 0;
    ZTC_RETURN_IF_ERROR(nanoseconds(base_, step->begin_, begin));
    ZTC_RETURN_IF_ERROR(nanoseconds(step->begin_, step->end_, duration));
    step->nanoseconds_ += duration;
    if (trace_)
      trace_->record(tracks_[step->stream_], step->label_, baseClock_ + begin, baseClock_ + begin + duration);
  }
  steps_.clear();
  return Status::ok();
}

} // namespace ztc
