#include "runtime/Device/cuda/CudaAttentionTuning.h"
#include "runtime/Device/cuda/CudaReals.h"
#include "runtime/Device/cuda/CudaTimer.h"
#include "runtime/Device/cuda/CudaTuning.h"
#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace ztc {
namespace {

using Clock = std::chrono::steady_clock;
using Steps = std::vector<CudaAttentionStep *>;

/// What the choices of a run call it.
const char *nameOf(AttentionWay way) {
  switch (way) {
  case AttentionWay::CudnnScores:
    return "cuDNN with scores in memory";
  case AttentionWay::Cudnn:
    return "cuDNN";
  case AttentionWay::OwnKernels:
    break;
  }
  return "own kernels";
}

/// Those with a choice, by signature.
std::map<std::string, Steps> callsOf(const CudaResources &resources) {
  std::map<std::string, Steps> calls;
  for (CudaAttentionStep *step : resources.attention)
    if (step->ways().size() > 1)
      calls[step->signature()].push_back(step);
  return calls;
}

void takeAll(const Steps &steps, AttentionWay way, const std::string &why) {
  for (CudaAttentionStep *step : steps)
    step->take(way, why);
}

bool takeKnown(const AlgorithmChoices &choices, const std::string &signature, const Steps &steps) {
  const auto found = choices.algorithms.find(signature);
  if (found == choices.algorithms.end())
    return false;
  for (AttentionWay way : steps.front()->ways())
    if (found->second == nameOf(way)) {
      takeAll(steps, way, "measured to be faster than cuDNN's");
      return true;
    }
  return false;
}

StatusOr<double> secondsOf(CudaAttentionStep &step, CudaStopwatch &watch, Clock::time_point end) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kTuningRepetitions && Clock::now() < end; ++i) {
    ZTC_ASSIGN_OR_RETURN(const double seconds, watch.seconds([&] { return step.execute(0); }));
    if (i > 0)
      shortest = std::min(shortest, seconds);
  }
  return shortest;
}

} // namespace

bool hasAttentionChoice(const CudaResources &resources) {
  return std::ranges::any_of(resources.attention,
                             [](const CudaAttentionStep *step) { return step->ways().size() > 1; });
}

Status tuneCudaAttention(CudaResources &resources, const Arena &arena, const TuningRequest &request,
                         Clock::time_point end, TunedAlgorithms &tuned) {
  const std::map<std::string, Steps> calls = callsOf(resources);
  if (calls.empty())
    return Status::ok();
  const cuda::Stream stream = resources.streams[kComputeStream];
  CudaStopwatch watch(resources.driver, stream);
  ZTC_RETURN_IF_ERROR(watch.create());
  bool isFilled = false;
  for (const auto &[signature, steps] : calls) {
    if (request.known.key == tuned.all.key && takeKnown(request.known, signature, steps)) {
      tuned.known.insert(signature);
    } else if (request.seconds > 0 && Clock::now() < end) {
      if (!isFilled)
        ZTC_RETURN_IF_ERROR(
            fillWithReals(resources.driver, stream, reinterpret_cast<cuda::Address>(arena.base()), arena.bytes()));
      isFilled = true;
      CudaAttentionStep &step = *steps.front();
      ZTC_RETURN_IF_ERROR(step.initialize(arena.base()));
      ZTC_RETURN_IF_ERROR(step.prepareTrial());
      const std::vector<AttentionWay> ways = step.ways();
      std::vector<double> seconds;
      std::string refusal; // of a way that was planned, and cannot be gone
      size_t best = 0;
      for (size_t i = 0; i < ways.size(); ++i) {
        step.take(ways[i], {});
        StatusOr<double> shortest = secondsOf(step, watch, end);
        if (!shortest.isOk() && ways[i] == AttentionWay::OwnKernels)
          return shortest.status();
        if (!shortest.isOk())
          refusal = shortest.status().message();
        seconds.push_back(shortest.isOk() ? *shortest : std::numeric_limits<double>::infinity());
        if (seconds[i] < kClearlyFaster * seconds[best])
          best = i;
      }
      const bool measured = Clock::now() < end;
      const double byCudnn = *std::min_element(seconds.begin(), seconds.end() - 1);
      takeAll(steps, ways[measured || !refusal.empty() ? best : 0],
              !refusal.empty() ? refusal
                               : fmt::format("{:.1f} times as fast as cuDNN's here", byCudnn / seconds.back()));
      if (measured && refusal.empty()) { // what was refused may be there in the next run
        tuned.measured.algorithms[signature] = nameOf(ways[best]);
        for (size_t i = 0; i < ways.size(); ++i)
          tuned.attentionSeconds[signature][nameOf(ways[i])] = seconds[i];
      }
    }
    tuned.all.algorithms[signature] = nameOf(steps.front()->way());
    tuned.unmeasured += !tuned.known.contains(signature) && !tuned.measured.algorithms.contains(signature);
  }
  return Status::ok();
}

std::string useCudaAttention(CudaResources &resources, const AlgorithmChoices &choices) {
  std::string refused;
  for (const auto &[signature, steps] : callsOf(resources))
    if (!takeKnown(choices, signature, steps) && refused.empty())
      refused = signature;
  return refused;
}

} // namespace ztc
