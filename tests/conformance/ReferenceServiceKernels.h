// Plain C++ stand-ins for the service kernels that the compiler generates (runtime/Format/ServiceKernels.md).
#pragma once
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/plan.pb.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace ztc::test {

/// The scale that the stand-in for attention_softmax_grad has built in.
inline constexpr double kReferenceScale = 0.21;

/// What scratch holds of a value where the tensors have this type.
template <plan::DataType type> float roundedTo(double value) {
  const float wide = float(value);
  return type == plan::BF16 ? fromBf16(toBf16(wide)) : type == plan::F16 ? fromF16(toF16(wide)) : wide;
}

/// Visible columns [first, end) of row `row`.
template <bool causal> std::pair<int64_t, int64_t> visibleColumns(const int64_t *scalars, int64_t row) {
  int64_t position = scalars[0] + row, columns = scalars[2], window = scalars[3];
  if (!causal)
    return {0, columns};
  return {window ? std::max<int64_t>(0, position - window + 1) : 0, std::min(position + 1, columns)};
}

/// Of capped scores the cap, the fifth scalar; else 0.
template <bool capped> float capOf(const int64_t *scalars) {
  return capped ? std::bit_cast<float>(uint32_t(scalars[4])) : 0;
}

template <bool causal, plan::DataType type = plan::F32, bool capped = false>
void attentionSoftmax(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float *scores = static_cast<float *>(buffers[0]) + row * scalars[1];
    auto [first, last] = visibleColumns<causal>(scalars, row);
    for (int64_t c = first; capped && c < last; ++c)
      scores[c] = float(std::tanh(double(scores[c])) * capOf<capped>(scalars));
    float maximum = -INFINITY;
    double sum = 0;
    for (int64_t c = first; c < last; ++c)
      maximum = std::max(maximum, scores[c]);
    for (int64_t c = first; c < last; ++c)
      sum += std::exp(double(scores[c]) - maximum);
    for (int64_t c = 0; c < scalars[2]; ++c)
      scores[c] = c >= first && c < last ? roundedTo<type>(std::exp(double(scores[c]) - maximum) / sum) : 0;
    static_cast<float *>(buffers[1])[row] = float(maximum + std::log(sum));
  }
}

template <bool causal, plan::DataType type = plan::F32, bool capped = false>
void attentionSoftmaxGrad(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float *scores = static_cast<float *>(buffers[0]) + row * scalars[1];
    float *dp = static_cast<float *>(buffers[1]) + row * scalars[1];
    float lse = static_cast<float *>(buffers[2])[row], delta = static_cast<float *>(buffers[3])[row];
    auto [first, last] = visibleColumns<causal>(scalars, row);
    for (int64_t c = 0; c < scalars[2]; ++c) {
      const double bent = capped ? std::tanh(double(scores[c])) : 0;
      const float score = capped ? float(bent * capOf<capped>(scalars)) : scores[c];
      const float p = c >= first && c < last ? std::exp(score - lse) : 0;
      dp[c] = c >= first && c < last ? roundedTo<type>(p * (dp[c] - delta) * kReferenceScale * (1 - bent * bent)) : 0;
      scores[c] = roundedTo<type>(p);
    }
  }
}

inline void rowDot(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < scalars[2]; ++c)
      sum += double(static_cast<float *>(buffers[0])[row * scalars[0] + c]) *
             static_cast<float *>(buffers[1])[row * scalars[1] + c];
    static_cast<float *>(buffers[2])[row] = float(sum);
  }
}

template <bool training, plan::DataType type = plan::F32, bool weighted = false>
void crossEntropyRows(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float *logits = static_cast<float *>(buffers[0]) + row * scalars[0];
    int64_t columns = scalars[1];
    int32_t target = static_cast<int32_t *>(buffers[1])[row];
    float *loss = static_cast<float *>(buffers[training ? 3 : 2]) + row;
    *loss = 0;
    if (target < 0) {
      for (int64_t c = 0; training && c < columns; ++c)
        logits[c] = 0;
      continue;
    }
    std::transform(logits, logits + columns, logits, [](float product) { return roundedTo<type>(product); });
    float maximum = *std::max_element(logits, logits + columns);
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += std::exp(double(logits[c]) - maximum);
    double lse = maximum + std::log(sum);
    const float weight = weighted ? static_cast<float *>(buffers[training ? 4 : 3])[row] : 1;
    *loss = float(lse - logits[target]) * weight;
    if (training) {
      float scale = *static_cast<float *>(buffers[2]) * weight;
      for (int64_t c = 0; c < columns; ++c)
        logits[c] = roundedTo<type>((std::exp(logits[c] - lse) - (c == target ? 1 : 0)) * scale);
    }
  }
}

} // namespace ztc::test
