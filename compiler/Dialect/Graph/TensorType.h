// The type of a value that the dialect holds to be a tensor of known rank.
#pragma once
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace ztc::graph {

/// Shape and element type of an operand or result: the constraints of every op say that it is a ranked tensor.
inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace ztc::graph
