// --skip-spikes: the gradient norm above which a step's update is dropped.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ztc {

/// Mean + sigma * deviation of the norms of a running window, dropped steps left out. All ranks see the same norms and
/// hence take the same decisions; a checkpoint holds them. The limit of a step leaves out the norm of the step right
/// before it: that one may still be under way when this one begins.
struct SpikeGuard {
  static constexpr size_t kWindow = 64;
  static constexpr size_t kFewest = 16; ///< norms that tell what is usual
  /// So many drops in a row are a new level, not a spike: the window begins anew.
  static constexpr uint64_t kMostInARow = 10;
  /// A window that hardly varies calls nothing a spike that is this near its mean.
  static constexpr double kLeastDeviation = 0.01;

  double sigma = 0; ///< 0: nothing is dropped
  uint64_t droppedInARow = 0;

  /// Of a step whose update was made.
  void add(float norm) {
    if (sigma <= 0)
      return;
    droppedInARow = 0;
    norms_[next_] = norm;
    next_ = (next_ + 1) % norms_.size();
    count_ += count_ < norms_.size() ? 1 : 0;
  }
  /// A step was dropped; true where the window begins anew.
  bool drop() {
    if (++droppedInARow < kMostInARow)
      return false;
    count_ = droppedInARow = 0;
    return true;
  }
  /// Infinite while too little is known.
  double limit() const {
    if (sigma <= 0 || count_ <= kFewest)
      return std::numeric_limits<double>::infinity();
    const std::vector<float> known = window();
    const size_t count = known.size() - 1;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; ++i)
      mean += known[i] / double(count);
    for (size_t i = 0; i < count; ++i)
      squares += (known[i] - mean) * (known[i] - mean) / double(count);
    return mean + sigma * std::max(std::sqrt(squares), kLeastDeviation * mean);
  }
  /// The norms, oldest first: what a checkpoint holds.
  std::vector<float> window() const {
    std::vector<float> norms;
    for (size_t i = 0; i < count_; ++i)
      norms.push_back(norms_[(next_ + norms_.size() - count_ + i) % norms_.size()]);
    return norms;
  }

private:
  std::array<float, kWindow + 1> norms_{};
  size_t next_ = 0, count_ = 0;
};

} // namespace ztc
