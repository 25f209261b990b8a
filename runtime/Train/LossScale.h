// fp16: the factor that keeps small gradients from becoming zero.
#pragma once
#include <cstdint>

namespace ztc {

/// A power of two that changes between steps only: it halves where gradients overflow and doubles after many steps that
/// did not. All ranks see the same overflows, so all have the same scale.
struct LossScale {
  static constexpr double kFirst = 65536;
  static constexpr uint64_t kGoodStepsToDouble = 2000;
  static constexpr uint64_t kMostSkipsInARow = 20;

  double scale = 1;           ///< of the next step
  uint64_t goodSteps = 0;     ///< since the scale last changed
  uint64_t skippedInARow = 0; ///< steps that overflowed since the last good one
  bool isDynamic = false;     ///< fp16; otherwise the scale stays 1

  bool operator==(const LossScale &) const = default;

  /// After a step with targets.
  void update(bool finite) {
    if (!finite) {
      scale /= 2;
      goodSteps = 0;
      ++skippedInARow;
      return;
    }
    skippedInARow = 0;
    if (++goodSteps == kGoodStepsToDouble) {
      scale *= 2;
      goodSteps = 0;
    }
  }
  /// Halving does not help: something else is wrong.
  bool isExhausted() const { return skippedInARow >= kMostSkipsInARow; }
};

} // namespace ztc
