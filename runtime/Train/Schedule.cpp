#include "runtime/Train/Schedule.h"
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>
#include <string>

namespace ztc {

StatusOr<ScheduleKind> parseScheduleKind(std::string_view name) {
  if (name == "cosine")
    return ScheduleKind::Cosine;
  if (name == "linear")
    return ScheduleKind::Linear;
  if (name == "constant")
    return ScheduleKind::Constant;
  if (name == "wsd")
    return ScheduleKind::WarmupStableDecay;
  return invalidArgument("--schedule: expected cosine, linear, constant or wsd, found '" + std::string(name) + "'");
}

StatusOr<std::pair<ClipBy, double>> parseClip(std::string_view text) {
  ClipBy by = ClipBy::Norm;
  std::string_view number = text;
  for (const auto &[name, kind] : {std::pair(std::string_view("block"), ClipBy::Bucket),
                                   std::pair(std::string_view("previous"), ClipBy::PreviousNorm)})
    if (text == name || (text.starts_with(name) && text.substr(name.size()).starts_with(":"))) {
      by = kind;
      number = text == name ? "1" : text.substr(name.size() + 1);
    }
  double clip = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), clip);
  if (number.empty() || error != std::errc() || end != number.data() + number.size() || !std::isfinite(clip) ||
      clip < 0)
    return invalidArgument(
        fmt::format("'{}' is none of X, block, block:X, previous and previous:X, where X is a finite "
                    "number, not negative; 0 turns clipping off",
                    text));
  if (by != ClipBy::Norm && clip == 0)
    return invalidArgument(fmt::format("{}: a norm to clip to is more than 0; --clip=0 turns clipping off", text));
  return std::pair(by, clip);
}

std::string clipText(ClipBy by, double clip) {
  const char *name = by == ClipBy::Bucket ? "block:" : by == ClipBy::PreviousNorm ? "previous:" : "";
  return fmt::format("{}{}", name, clip);
}

double Schedule::rate(uint64_t t) const {
  if (t < warmup)
    return learningRate * (double(t + 1) / double(warmup));
  double p = steps > warmup ? std::min(1.0, double(t + 1 - warmup) / double(steps - warmup)) : 1.0;
  switch (kind) {
  case ScheduleKind::Cosine:
    return learningRate * (minRatio + (1 - minRatio) * (1 + std::cos(std::numbers::pi * p)) / 2);
  case ScheduleKind::Linear:
    return learningRate * (1 - (1 - minRatio) * p);
  case ScheduleKind::WarmupStableDecay:
    return p <= kStableShare ? learningRate
                             : learningRate * (1 - (1 - minRatio) * (p - kStableShare) / (1 - kStableShare));
  case ScheduleKind::Constant:
    break;
  }
  return learningRate;
}

StepParameterArray stepParameters(const Schedule &schedule, const OptimizerSettings &optimizer, uint64_t t,
                                  double weightOfTargets, double lossScale, uint64_t seed, double normLimit,
                                  std::optional<float> previousNorm) {
  StepParameterArray values{};
  auto set = [&](StepParameter which, double value) { values[uint32_t(which)] = float(value); };
  double rate = schedule.rate(t);
  double count = double(t + 1);
  set(StepParameter::InverseCount, lossScale / weightOfTargets);
  set(StepParameter::LearningRate, rate);
  set(StepParameter::DecayFactor, 1 - rate * optimizer.weightDecay);
  set(StepParameter::StepSize, rate / (1 - std::pow(optimizer.beta1, count)));
  set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(optimizer.beta2, count)));
  set(StepParameter::Beta1, optimizer.beta1);
  set(StepParameter::OneMinusBeta1, 1 - optimizer.beta1);
  set(StepParameter::Beta2, optimizer.beta2);
  set(StepParameter::OneMinusBeta2, 1 - optimizer.beta2);
  set(StepParameter::Epsilon, optimizer.epsilon);
  const bool clipsByPrevious = optimizer.clip > 0 && optimizer.clipBy == ClipBy::PreviousNorm && previousNorm;
  const bool clips = optimizer.clip > 0 && !clipsByPrevious;
  set(StepParameter::Clip, clips ? optimizer.clip : std::numeric_limits<double>::infinity());
  set(StepParameter::KnownScale,
      clipsByPrevious ? std::min(1.0, optimizer.clip / (double(*previousNorm) + 1e-6)) : 1.0);
  set(StepParameter::LossScale, lossScale);
  set(StepParameter::InverseLossScale, 1 / lossScale);
  set(StepParameter::InverseNormLimit, 1 / normLimit);
  set(StepParameter::WeightDecay, optimizer.weightDecay);
  set(StepParameter::Momentum, optimizer.momentum);
  set(StepParameter::Nesterov, optimizer.nesterov ? 1 : 0);
  auto setBits = [&](StepParameter which, uint64_t bits) {
    values[uint32_t(which)] = std::bit_cast<float>(uint32_t(bits));
  };
  setBits(StepParameter::RandomSeed, seed ^ seed >> 32);
  setBits(StepParameter::RandomStep, t);
  return values;
}

} // namespace ztc
