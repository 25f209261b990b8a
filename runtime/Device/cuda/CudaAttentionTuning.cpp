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

/// What the choices of a run call the two.
constexpr const char *kCudnn = "cuDNN", *kOwn = "own kernels";

/// Those with a choice, by signature.
std::map<std::string, Steps> callsOf(const CudaResources &resources) {
  std::map<std::string, Steps> calls;
  for (CudaAttentionStep *step : resources.attention)
    if (step->hasChoice())
      calls[step->signature()].push_back(step);
  return calls;
}

void chooseWay(const Steps &steps, bool cudnn, const std::string &why) {
  for (CudaAttentionStep *step : steps)
    step->useCudnn(cudnn, why);
}

bool takeWay(const AlgorithmChoices &choices, const std::string &signature, const Steps &steps) {
  const auto found = choices.algorithms.find(signature);
  if (found == choices.algorithms.end() || (found->second != kCudnn && found->second != kOwn))
    return false;
  chooseWay(steps, found->second == kCudnn, "measured to be faster than cuDNN's");
  return true;
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
  return std::ranges::any_of(resources.attention, [](const CudaAttentionStep *step) { return step->hasChoice(); });
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
    if (request.known.key == tuned.all.key && takeWay(request.known, signature, steps)) {
      tuned.known.insert(signature);
    } else if (request.seconds > 0 && Clock::now() < end) {
      if (!isFilled)
        ZTC_RETURN_IF_ERROR(
            fillWithReals(resources.driver, stream, reinterpret_cast<cuda::Address>(arena.base()), arena.bytes()));
      isFilled = true;
      CudaAttentionStep &step = *steps.front();
      ZTC_RETURN_IF_ERROR(step.initialize(arena.base()));
      ZTC_RETURN_IF_ERROR(step.prepareTrial());
      std::array<double, 2> seconds{}; // of own kernels, of cuDNN
      for (const bool cudnn : {false, true}) {
        step.useCudnn(cudnn, {});
        ZTC_ASSIGN_OR_RETURN(seconds[cudnn], secondsOf(step, watch, end));
      }
      const bool measured = Clock::now() < end;
      const bool own = measured && seconds[false] < kClearlyFaster * seconds[true];
      chooseWay(steps, !own, fmt::format("{:.1f} times as fast as cuDNN's here", seconds[true] / seconds[false]));
      if (measured)
        tuned.measured.algorithms[signature] = own ? kOwn : kCudnn;
    }
    tuned.all.algorithms[signature] = steps.front()->isByCudnn() ? kCudnn : kOwn;
    tuned.unmeasured += !tuned.known.contains(signature) && !tuned.measured.algorithms.contains(signature);
  }
  return Status::ok();
}

std::string useCudaAttention(CudaResources &resources, const AlgorithmChoices &choices) {
  std::string refused;
  for (const auto &[signature, steps] : callsOf(resources))
    if (!takeWay(choices, signature, steps) && refused.empty())
      refused = signature;
  return refused;
}

} // namespace ztc
