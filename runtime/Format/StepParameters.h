// The numbers of one optimizer step, in one device struct refreshed by one copy per step.
#pragma once
#include <cstdint>

namespace ztc {

/// The step-parameter slot holds kStepParameterCount floats; the compiler refers to them by index (`hyper` of
/// graph.optimizer_step). The host computes each in double and rounds once.
enum class StepParameter : uint32_t {
  InverseCount = 0, ///< 1/N times the loss scale: the cotangent of the summed loss
  LearningRate = 1,
  DecayFactor = 2,            ///< 1 - learning rate * weight decay
  StepSize = 3,               ///< learning rate / (1 - beta1^t), t counted from 1
  InverseSqrtCorrection2 = 4, ///< 1 / sqrt(1 - beta2^t)
  Beta1 = 5,
  OneMinusBeta1 = 6,
  Beta2 = 7,
  OneMinusBeta2 = 8,
  Epsilon = 9,
  Clip = 10,      ///< largest gradient norm; +inf: no clipping
  LossScale = 11, ///< 1 except in fp16
  InverseLossScale = 12,
  RandomSeed = 13,       ///< randomField() (StochasticRounding.h) of the run's seed, folded to 32 bits
  RandomStep = 14,       ///< randomField() of the updates done, t
  InverseNormLimit = 15, ///< 1 / the gradient norm from which on nothing is updated; 0: any finite one updates
  WeightDecay = 16,
  Momentum = 17,
  Nesterov = 18,   ///< 1: Nesterov's momentum; else 0
  KnownScale = 19, ///< of gradients, where updates are in the backward: what the norm of the step before clips to, or 1
};
inline constexpr uint32_t kStepParameterCount = 20;

} // namespace ztc
