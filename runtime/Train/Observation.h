// --profile and --trace: what a run says about its own speed.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/Trace.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/Session.h"
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>

namespace ztc {

/// Observes the training steps of one run. Costs nothing where neither option was given.
class Observation {
public:
  /// Measures the device and takes the memory of the trace; before the first of `steps` steps. `options` and `session`
  /// must outlive the observation.
  static StatusOr<Observation> begin(const RunOptions &options, Session &session, uint64_t steps);
  /// To be called after each optimizer step with its seconds; empty where nobody wants to know.
  std::function<void(double)> afterStep() const;
  /// Prints the profile to `out`, adds its event to an open log, writes the trace.
  Status end(std::FILE *out, JsonLog &log);

private:
  /// Shared with the hook, which outlives a move.
  struct Counts {
    uint64_t warmUp = 0, counted = 0;
    double seconds = 0;
  };
  Observation(const RunOptions &options, Session &session) : options_(&options), session_(&session) {}
  void endProfile(std::FILE *out, JsonLog &log) const;

  const RunOptions *options_;
  Session *session_;
  DeviceLimits limits_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  std::unique_ptr<TraceRecorder> trace_;
};

} // namespace ztc
