// Times as the GPU took them, by events: of steps, where somebody asked for a trace or a profile, and of measurements.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"
#include <functional>

namespace ztc {

class CudaTimer;

/// Two events around whatever is measured while nothing else runs.
class CudaStopwatch {
public:
  CudaStopwatch(const CudaDriver &driver, cuda::Stream stream) : driver_(driver), stream_(stream) {}
  ~CudaStopwatch();
  CudaStopwatch(const CudaStopwatch &) = delete;
  CudaStopwatch &operator=(const CudaStopwatch &) = delete;
  Status create();
  /// Seconds that what `work` gives to the stream takes; waits for it.
  StatusOr<double> seconds(const std::function<Status()> &work);

private:
  const CudaDriver &driver_;
  const cuda::Stream stream_;
  cuda::Event begin_ = nullptr, end_ = nullptr;
};

/// A step between two events.
class TimedStep : public DeviceStep {
public:
  TimedStep(std::unique_ptr<DeviceStep> step, const CudaPrepare &from, CudaTimer &timer);
  ~TimedStep() override;
  TimedStep(const TimedStep &) = delete;
  TimedStep &operator=(const TimedStep &) = delete;
  Status initialize(std::byte *arena) override;
  Status execute(uint32_t microstep) override;
  uint64_t queuedNanoseconds() const override { return nanoseconds_; }

private:
  friend class CudaTimer;
  std::unique_ptr<DeviceStep> step_;
  const CudaDriver &driver_;
  CudaTimer &timer_;
  const uint32_t stream_; ///< index
  const cuda::Stream handle_;
  cuda::Event begin_ = nullptr, end_ = nullptr;
  uint32_t label_ = 0; ///< of the trace
  uint64_t nanoseconds_ = 0;
};

/// Collects the steps of one execution of a program.
class CudaTimer {
public:
  explicit CudaTimer(const CudaDriver &driver) : driver_(driver) {}
  ~CudaTimer();
  CudaTimer(const CudaTimer &) = delete;
  CudaTimer &operator=(const CudaTimer &) = delete;
  /// Adds a track for each stream; null: no trace.
  void setTrace(TraceRecorder *trace);
  /// Ahead of a program, with nothing under way: the moment from which `stream`'s events count.
  Status begin(cuda::Stream stream);
  void add(TimedStep &step) { steps_.push_back(&step); }
  /// After it, when all streams are done.
  Status collect();

private:
  const CudaDriver &driver_;
  cuda::Event base_ = nullptr;
  uint64_t baseClock_ = 0; ///< traceClock() at `base_`
  std::vector<TimedStep *> steps_;
  TraceRecorder *trace_ = nullptr;
  uint32_t tracks_[3] = {};
};

} // namespace ztc
