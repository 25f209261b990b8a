// The interpreter's values as kernels have them in memory.
#pragma once
#include "compiler/Reference/Tensor.h"
#include <vector>

namespace ztc {

/// Row-major elements in the tensor's type: floats of 16 and 32 bits, integers of 16, 32 and 64, i1 in a byte each.
std::vector<char> toBytes(const Tensor &tensor);
/// The other way.
Tensor fromBytes(const std::vector<char> &bytes, mlir::RankedTensorType type);

/// Reproducible values: floats in [-2, 2] that the type has, integers from 0 to 3, i1 alternating by chance.
Tensor randomOperand(mlir::RankedTensorType type, unsigned seed);

} // namespace ztc
