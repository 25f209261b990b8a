// The type of a value that the dialect holds to be a tensor of known rank.
#pragma once
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

namespace ztc::graph {

/// Shape and element type of an operand or result: the constraints of every op say that it is a ranked tensor.
inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Fails, with an error of the op that calls the value `what`, where the value is present and has another shape.
inline llvm::LogicalResult expectShape(mlir::Operation *op, llvm::StringRef what, mlir::Value value,
                                       llvm::ArrayRef<int64_t> shape) {
  if (!value || tensorOf(value).getShape() == shape)
    return llvm::success();
  mlir::InFlightDiagnostic error = op->emitOpError() << what << " is " << tensorOf(value) << ", expected the shape (";
  llvm::interleaveComma(shape, error);
  return error << ")";
}

} // namespace ztc::graph
