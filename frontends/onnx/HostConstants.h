// Evaluated tensors as constants of the graph.
#pragma once
#include "frontends/onnx/Build.h"
#include "frontends/onnx/HostTensor.h"

namespace ztc::importer {

/// A constant of `shape` with the tensor's elements, in f32, i32 or i1; integers beyond 32 bits become the nearest that
/// has 32. Leading dimensions along which nothing changes are not stored but broadcast: a mask of every row and head is
/// one (S, S) square.
mlir::Value constantOf(mlir::OpBuilder &builder, mlir::Location loc, const HostTensor &tensor,
                       llvm::ArrayRef<int64_t> shape);

} // namespace ztc::importer
