#include "runtime/Train/Observation.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include "runtime/Executor/Profile.h"
#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ztc {

/// The first steps touch memory for the first time and fill caches: they say nothing about the others.
static constexpr uint64_t kWarmUpSteps = 2;
/// Per track; 1.5 MiB of memory each.
static constexpr size_t kSpansPerTrack = 1 << 16;

StatusOr<Observation> Observation::begin(const RunOptions &options, Session &session, uint64_t steps) {
  Observation observation(options, session);
  observation.counts_->warmUp = std::min(kWarmUpSteps, steps - std::min<uint64_t>(steps, 1));
  if (!options.profile.empty()) {
    ZTC_ASSIGN_OR_RETURN(observation.limits_, session.measureLimits());
  }
  if (!options.trace.empty()) {
    // Said now, not after hours of training.
    ZTC_RETURN_IF_ERROR(checkWritable(parentFolder(options.trace)).withContext("--trace"));
    observation.trace_ = std::make_unique<TraceRecorder>(kSpansPerTrack);
    session.executor().setTrace(observation.trace_.get());
  }
  return StatusOr<Observation>(std::move(observation));
}

std::function<void(double)> Observation::afterStep() const {
  if (options_->profile.empty())
    return {};
  return [counts = counts_, executor = &session_->executor()](double seconds) {
    if (counts->warmUp > 0) {
      --counts->warmUp;
      executor->resetStatistics();
      return;
    }
    ++counts->counted;
    counts->seconds += seconds;
  };
}

void Observation::endProfile(std::FILE *out, JsonLog &log) const {
  if (counts_->counted == 0) {
    print(out, "--profile: no step was counted\n");
    return;
  }
  ProfileSource source{.plan = session_->plan(),
                       .memory = session_->memory(),
                       .shape = session_->shape(),
                       .statistics = session_->executor().statistics(),
                       .limits = limits_,
                       .steps = counts_->counted,
                       .seconds = counts_->seconds,
                       .everyStep = options_->profile == "steps"};
  print(out, "\n{}", profileText(source));
  if (!log.isOpen())
    return;
  ProfileSummary summary = summarizeProfile(source);
  std::string kernels;
  JsonObject kernel, line;
  for (const ProfileRow &row : profileRows(source)) {
    kernel.begin().add("name", row.name).add("calls", row.calls).add("seconds", row.seconds).add("bytes", row.bytes);
    kernels += kernels.empty() ? "[" : ", ";
    kernels += kernel.add("flops", row.flops).add("is_product", row.isProduct).end();
  }
  log.write(line.begin()
                .add("event", "profile")
                .add("steps", source.steps)
                .add("step_ms", summary.stepSeconds * 1e3)
                .add("best_ms", summary.bestSeconds * 1e3)
                .add("accounted", summary.accounted)
                .add("product_flops", summary.productFlops)
                .add("matmul_flops_per_second", limits_.matmulFlopsPerSecond)
                .add("matmul", limits_.matmulName)
                .add("copy_bytes_per_second", limits_.copyBytesPerSecond)
                .add("matmul_bound_share", summary.matmulBoundSeconds / summary.stepSeconds)
                .addRaw("kernels", kernels.empty() ? "[]" : kernels + "]")
                .end());
}

Status Observation::end(std::FILE *out, JsonLog &log) {
  if (!options_->profile.empty())
    endProfile(out, log);
  if (!trace_)
    return Status::ok();
  session_->executor().setTrace(nullptr);
  ZTC_RETURN_IF_ERROR(trace_->write(options_->trace, 0).withContext("--trace"));
  print(out, "timeline of the last steps: {}\n", options_->trace);
  return Status::ok();
}

} // namespace ztc
