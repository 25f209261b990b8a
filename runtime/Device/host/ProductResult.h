// Where a product of matrices goes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ztc {

/// Where a product goes, what is added to each row of it, and what is made of it before it is rounded.
struct ProductResult {
  ProductResult(void *c, const uint16_t *bias = nullptr) : c(c), bias(bias) {}
  void *c;
  const uint16_t *bias;     ///< a vector of n, of C's type, which is narrow; null: none
  bool gelu = false;        ///< C, which is narrow, is GELU (its tanh form) of the sum with its bias
  uint16_t *sums = nullptr; ///< with `gelu`: receives the rounded sums, in the layout of C; null: they are not stored

  /// From `element` of C, of `elementBytes`, on, which is in `column`.
  ProductResult at(uint64_t element, uint64_t column, uint64_t elementBytes) const {
    ProductResult part = *this;
    part.c = static_cast<std::byte *>(c) + element * elementBytes;
    part.bias = bias ? bias + column : nullptr;
    part.sums = sums ? sums + element : nullptr;
    return part;
  }
};

} // namespace ztc
