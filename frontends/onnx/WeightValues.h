// Elements of a graph's tensor computed from tensors of a checkpoint: a form applied.
#pragma once
#include "frontends/onnx/WeightForm.h"
#include "runtime/Core/Status.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc::importer {

/// A checkpoint's tensor by name; null where there is none.
using FindTensor = llvm::function_ref<const TensorView *(llvm::StringRef)>;

/// The elements of the tensor of `shape` that `form` makes of the checkpoint's tensors, row-major. NotFound where one
/// is missing, FailedPrecondition where its shape gives another number of elements.
StatusOr<std::vector<float>> valuesOf(const WeightForm &form, llvm::ArrayRef<int64_t> shape, FindTensor find);

/// The elements as a file has them: little-endian, rounded to nearest even. FailedPrecondition for a number that is not
/// finite in the type.
StatusOr<std::string> encoded(llvm::ArrayRef<float> values, ElementType type);

} // namespace ztc::importer
