// Learning rate and step parameters: functions of the number of updates done, computed in double and rounded once.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/StepParameters.h"
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ztc {

enum class ScheduleKind { Cosine, Linear, Constant, WarmupStableDecay };

/// Parses cosine, linear, constant or wsd.
StatusOr<ScheduleKind> parseScheduleKind(std::string_view name);

/// The share of the steps after warm-up during which wsd stays at the full rate; then it falls in a line.
inline constexpr double kStableShare = 0.8;

struct Schedule {
  ScheduleKind kind = ScheduleKind::Cosine;
  double learningRate = 3e-4; ///< the largest rate
  uint64_t steps = 0;         ///< N, of the whole run
  uint64_t warmup = 0;        ///< steps of linear warm-up; may exceed `steps`
  double minRatio = 0.1;      ///< rate at the end over `learningRate`

  /// The rate of update t = 0..N-1: lr (t+1)/warmup while t < warmup, then a fall over p = (t+1-warmup)/(N-warmup):
  ///   cosine   lr (r + (1-r) (1 + cos(pi p)) / 2)
  ///   linear   lr (1 - (1-r) p)
  ///   wsd      lr up to p = 0.8, then lr (1 - (1-r) (p-0.8)/0.2)
  ///   constant lr
  /// After N updates p stays 1.
  double rate(uint64_t t) const;
};

/// Which norm is held against `clip`.
enum class ClipBy {
  Norm,         ///< that of all gradients
  Bucket,       ///< of each bucket by itself, where updates are in the backward
  PreviousNorm, ///< that of all gradients of the step before; in a run's first step as Bucket
};

/// Parses X, block, block:X, previous and previous:X: 0 does not clip, X alone goes with Norm.
StatusOr<std::pair<ClipBy, double>> parseClip(std::string_view text);
/// The other way round.
std::string clipText(ClipBy by, double clip);

/// What a run may set of its optimizer; each reads its own of these.
struct OptimizerSettings {
  double beta1 = 0.9;    ///< adamw (of muon: of what adamw updates), lion
  double beta2 = 0.95;   ///< adamw, lion
  double epsilon = 1e-8; ///< adamw
  double momentum = 0.9; ///< sgd, muon
  bool nesterov = false; ///< sgd; muon always has it
  double weightDecay = 0.1;
  double clip = 1.0; ///< largest gradient norm; 0 or less: no clipping
  ClipBy clipBy = ClipBy::Norm;
};

using StepParameterArray = std::array<float, kStepParameterCount>;

/// The step-parameter slot for update t (from 0). `weightOfTargets` is N of the whole global batch: the number of
/// counted targets, or the sum of their weights; more than 0. `seed` is that of stochastic rounding. From a gradient
/// norm of `normLimit` on nothing is updated. `previousNorm` is that of the step before, nothing in a run's first one.
StepParameterArray stepParameters(const Schedule &schedule, const OptimizerSettings &optimizer, uint64_t t,
                                  double weightOfTargets, double lossScale = 1.0, uint64_t seed = 0,
                                  double normLimit = std::numeric_limits<double>::infinity(),
                                  std::optional<float> previousNorm = std::nullopt);

} // namespace ztc
