// The elements of a dense tensor on the host, without the type that they stand for: what the interpreter's Tensor and
// the importer's HostTensor have in common.
#pragma once
#include "compiler/Tensors/Shapes.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// Row-major elements in one of three vectors: floats in double, integers in int64, booleans in a byte each. Which one
/// is used follows from the type that a derived struct adds; the others are empty.
struct DenseTensor {
  TensorShape shape;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<uint8_t> bits;

  int64_t rank() const { return int64_t(shape.size()); }
  int64_t count() const { return countOf(shape); }
  TensorShape strides() const { return rowMajorStrides(shape); }
};

/// y[i] = x[from(i)] for two tensors whose elements are in the same vector: `strides` are those of x seen from y's
/// shape, `start` the first element. A transposition, a broadcast and a slice are this.
void gatherStrided(const DenseTensor &x, int64_t start, llvm::ArrayRef<int64_t> strides, DenseTensor &y);
/// y[to(i)] = x[i], the other way: a padded tensor, and a part of a joined one.
void scatterStrided(const DenseTensor &x, DenseTensor &y, int64_t start, llvm::ArrayRef<int64_t> strides);
/// One element, of two tensors whose elements are in the same vector.
inline void copyElement(const DenseTensor &x, int64_t from, DenseTensor &y, int64_t to) {
  if (!x.reals.empty())
    y.reals[to] = x.reals[from];
  else if (!x.integers.empty())
    y.integers[to] = x.integers[from];
  else
    y.bits[to] = x.bits[from];
}

} // namespace ztc
