// Tensors seen as matrices, and when two of their elements are the same number.
#pragma once
#include "frontends/onnx/WeightForm.h"

namespace ztc::importer {

/// Element (row, column) of a tensor as a matrix, seen transposed where asked.
struct MatrixView {
  const TensorView &tensor;
  bool isTransposed = false;
  int64_t rows() const { return isTransposed ? tensor.columns() : tensor.rows(); }
  int64_t columns() const { return isTransposed ? tensor.rows() : tensor.columns(); }
  double at(int64_t row, int64_t column) const {
    return isTransposed ? tensor.at(column * tensor.columns() + row) : tensor.at(row * tensor.columns() + column);
  }
};

/// `graph` is scale * w + shift = `expected` up to the rounding of either type.
bool agrees(double graph, double expected, double rounding, double scale, double shift);

/// The same elements in other dimensions: `tensor` as `form` has it before it is reshaped, `other` being its tensor.
TensorView beforeReshape(const TensorView &tensor, const WeightForm &form, const TensorView &other);

} // namespace ztc::importer
