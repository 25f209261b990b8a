#include "runtime/Train/Schedule.h"
#include <algorithm>
#include <bit>
#include <cmath>
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
                                  uint64_t countedTargets, double lossScale, uint64_t seed, double normLimit) {
  StepParameterArray values{};
  auto set = [&](StepParameter which, double value) { values[uint32_t(which)] = float(value); };
  double rate = schedule.rate(t);
  double count = double(t + 1);
  set(StepParameter::InverseCount, lossScale / double(countedTargets));
  set(StepParameter::LearningRate, rate);
  set(StepParameter::DecayFactor, 1 - rate * optimizer.weightDecay);
  set(StepParameter::StepSize, rate / (1 - std::pow(optimizer.beta1, count)));
  set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(optimizer.beta2, count)));
  set(StepParameter::Beta1, optimizer.beta1);
  set(StepParameter::OneMinusBeta1, 1 - optimizer.beta1);
  set(StepParameter::Beta2, optimizer.beta2);
  set(StepParameter::OneMinusBeta2, 1 - optimizer.beta2);
  set(StepParameter::Epsilon, optimizer.epsilon);
  set(StepParameter::Clip, optimizer.clip > 0 ? optimizer.clip : std::numeric_limits<double>::infinity());
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
