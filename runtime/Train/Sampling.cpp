#include "runtime/Train/Sampling.h"
#include "runtime/Core/Random.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ztc {

/// In [0, 1), with 53 bits.
static double uniformAt(uint64_t seed, uint64_t text, uint64_t place) {
  const std::array<uint32_t, 4> bits = philox4x32({static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32),
                                                   static_cast<uint32_t>(text), static_cast<uint32_t>(text >> 32)},
                                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t(bits[0]) << 32 | bits[1]) >> 11) * 0x1p-53;
}

int32_t chooseToken(std::span<const float> logits, const Sampling &sampling, uint64_t text, uint64_t place) {
  const auto isLess = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a < b; };
  const auto likeliest = static_cast<int32_t>(std::max_element(logits.begin(), logits.end(), isLess) - logits.begin());
  const float most = logits[static_cast<size_t>(likeliest)];
  if (sampling.temperature <= 0 || !std::isfinite(most))
    return likeliest;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return isLess(y, x) || (!isLess(x, y) && a < b);
  };
  if (sampling.topK > 0 && sampling.topK < order.size()) {
    const auto end = order.begin() + static_cast<int64_t>(sampling.topK);
    std::partial_sort(order.begin(), end, order.end(), before);
    order.erase(end, order.end());
  } else if (sampling.topP < 1) {
    std::sort(order.begin(), order.end(), before);
  }
  std::vector<double> weights;
  double sum = 0;
  for (const int32_t token : order) {
    const float logit = logits[static_cast<size_t>(token)];
    weights.push_back(std::isnan(logit) ? 0 : std::exp((double(logit) - double(most)) / sampling.temperature));
    sum += weights.back();
  }
  if (sampling.topP < 1) {
    size_t kept = 0;
    for (double share = 0; kept < weights.size() && (kept == 0 || share < sampling.topP * sum); ++kept)
      share += weights[kept];
    weights.resize(kept);
    sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  double left = uniformAt(sampling.seed, text, place) * sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0)
      return order[i];
  }
  return likeliest; // rounding
}

} // namespace ztc
