#include "runtime/Format/WeightChange.h"
#include <algorithm>
#include <cmath>
#include <functional>

namespace ztc {

void WeightChange::apply(uint64_t columns, uint64_t begin, uint64_t count, float *values) const {
  if (!added.empty())
    for (uint64_t i = 0; i < count; ++i)
      values[i] += added[begin + i];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t first = std::max(begin, uint64_t(numbers[i]) * columns),
                   last = std::min(begin + count, (uint64_t(numbers[i]) + 1) * columns);
    if (first < last)
      std::copy_n(rows.begin() + int64_t(i * columns + first - uint64_t(numbers[i]) * columns), last - first,
                  values + (first - begin));
  }
  if (!rank)
    return;
  // Of W (outputs, inputs) row o is B's row o times A; of its transpose row i is A's column i times B.
  const uint64_t inputs = isTransposed ? a.size() / rank / experts : columns;
  const uint64_t rowsOfExpert = isTransposed ? inputs : b.size() / rank / experts;
  std::vector<float> sum;
  for (uint64_t at = begin; at < begin + count;) {
    const uint64_t row = at / columns, first = at % columns, last = std::min(columns, first + begin + count - at);
    const uint64_t expert = row / rowsOfExpert;
    sum.assign(last - first, 0.0f);
    for (uint64_t k = 0; k < rank; ++k) {
      const uint64_t factorRow = (expert * rank + k) * inputs; // of a
      const float factor = isTransposed ? a[factorRow + row % rowsOfExpert] : b[row * rank + k];
      const float *other = isTransposed ? b.data() + expert * columns * rank + k : a.data() + factorRow;
      const uint64_t stride = isTransposed ? rank : 1;
      for (uint64_t i = first; i < last; ++i)
        sum[i - first] += factor * other[i * stride];
    }
    float *out = values + (at - begin);
    for (uint64_t i = 0; i < last - first; ++i)
      out[i] += scale * sum[i];
    at += last - first;
  }
}

StatusOr<std::vector<float>> WeightChange::norms(const Elements &weight, uint64_t elements, uint64_t columns) const {
  std::vector<double> squares(isTransposed ? columns : elements / columns);
  std::vector<float> values(kChangedElements);
  for (uint64_t begin = 0; begin < elements; begin += kChangedElements) {
    const uint64_t count = std::min(kChangedElements, elements - begin);
    ZTC_RETURN_IF_ERROR(weight(begin, count, values.data()));
    apply(columns, begin, count, values.data());
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = begin + i;
      squares[isTransposed ? at % columns : at / columns] += double(values[i]) * double(values[i]);
    }
  }
  std::vector<float> norms(squares.size());
  std::ranges::transform(squares, norms.begin(), [](double square) { return float(std::sqrt(square)); });
  return norms;
}

StatusOr<std::vector<float>> WeightChange::factors(const Elements &weight, uint64_t elements, uint64_t columns) const {
  if (magnitude.empty())
    return std::vector<float>();
  ZTC_ASSIGN_OR_RETURN(std::vector<float> factors, norms(weight, elements, columns));
  std::ranges::transform(magnitude, factors, factors.begin(), std::divides<>());
  return factors;
}

void WeightChange::multiply(const std::vector<float> &factors, uint64_t columns, uint64_t begin, uint64_t count,
                            float *values) const {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = begin + i;
    values[i] *= factors[isTransposed ? at % columns : at / columns];
  }
}

} // namespace ztc
