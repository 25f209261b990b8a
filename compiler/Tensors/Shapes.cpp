#include "compiler/Tensors/Shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using llvm::ArrayRef;

namespace ztc {

TensorShape withoutOnes(ArrayRef<int64_t> shape) {
  TensorShape kept(shape);
  llvm::erase(kept, 1);
  return kept;
}

int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

std::optional<int64_t> checkedCount(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(product, std::max<int64_t>(size, 1), product))
      return std::nullopt;
  return llvm::is_contained(shape, 0) ? 0 : product;
}

TensorShape rowMajorStrides(ArrayRef<int64_t> shape) {
  TensorShape strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

bool broadcastShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b, TensorShape &result) {
  size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) { // from the right
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

TensorShape broadcastStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  TensorShape strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t size = from[from.size() - 1 - i];
    if (size != 1)
      strides[to.size() - 1 - i] = stride;
    stride *= size;
  }
  return strides;
}

int64_t linearIndex(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t linear = 0;
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    linear += i * stride;
  return linear;
}

} // namespace ztc
