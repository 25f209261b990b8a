// Shapes and row-major strides of dense tensors on the host, and the walk over their elements.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace ztc {

using TensorShape = llvm::SmallVector<int64_t, 6>;

/// The number of elements: the product of the sizes, 1 of a scalar.
int64_t countOf(llvm::ArrayRef<int64_t> shape);
/// The sizes that are not 1.
TensorShape withoutOnes(llvm::ArrayRef<int64_t> shape);
/// The same of a shape that is not trusted; none for sizes below zero, or where a part of the dimensions gives a number
/// beyond 63 bits.
std::optional<int64_t> checkedCount(llvm::ArrayRef<int64_t> shape);

/// Row-major strides in elements.
TensorShape rowMajorStrides(llvm::ArrayRef<int64_t> shape);
/// The common shape of two operands, NumPy's rule; false where there is none.
bool broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, TensorShape &result);
/// Row-major strides in elements of an operand of shape `from` seen as `to`: 0 along broadcast dimensions.
TensorShape broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);
/// The element that `index` names: the sum of index times stride.
int64_t linearIndex(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides);

/// Walks a shape in row-major order with the element offsets of operands that have their own strides.
class Odometer {
public:
  Odometer(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<TensorShape> strides)
      : shape(shape.begin(), shape.end()), strides(strides.begin(), strides.end()), index(shape.size(), 0),
        offsets(strides.size(), 0) {}
  int64_t offset(unsigned operand) const { return offsets[operand]; }
  void advance() {
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      for (unsigned i = 0; i < offsets.size(); ++i)
        offsets[i] += strides[i][d];
      if (++index[d] < shape[d])
        return;
      for (unsigned i = 0; i < offsets.size(); ++i)
        offsets[i] -= strides[i][d] * shape[d];
      index[d] = 0;
    }
  }
  llvm::ArrayRef<int64_t> position() const { return index; }

private:
  TensorShape shape;
  llvm::SmallVector<TensorShape, 3> strides;
  TensorShape index;
  llvm::SmallVector<int64_t, 3> offsets;
};

} // namespace ztc
