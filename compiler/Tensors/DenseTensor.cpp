#include "compiler/Tensors/DenseTensor.h"

using llvm::ArrayRef;

namespace ztc {
namespace {

/// `copy(from, to)` for the vector that is in use: one branch for a tensor, not one for each element.
template <typename Copy> void inVectorOf(const DenseTensor &x, DenseTensor &y, Copy &&copy) {
  if (!x.reals.empty())
    copy(x.reals, y.reals);
  else if (!x.integers.empty())
    copy(x.integers, y.integers);
  else if (!x.bits.empty())
    copy(x.bits, y.bits);
}

} // namespace

void gatherStrided(const DenseTensor &x, int64_t start, ArrayRef<int64_t> strides, DenseTensor &y) {
  Odometer odometer(y.shape, {TensorShape(strides)});
  inVectorOf(x, y, [&](const auto &from, auto &to) {
    for (int64_t i = 0, n = y.count(); i < n; ++i, odometer.advance())
      to[i] = from[start + odometer.offset(0)];
  });
}

void scatterStrided(const DenseTensor &x, DenseTensor &y, int64_t start, ArrayRef<int64_t> strides) {
  Odometer odometer(x.shape, {TensorShape(strides)});
  inVectorOf(x, y, [&](const auto &from, auto &to) {
    for (int64_t i = 0, n = x.count(); i < n; ++i, odometer.advance())
      to[start + odometer.offset(0)] = from[i];
  });
}

} // namespace ztc
