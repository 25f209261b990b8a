// Small steps of building graph ops that emission and raising share.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/Builders.h"
#include <optional>

namespace ztc::importer {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}

/// Each gives the operand back where there is nothing to do.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> shape);
/// Looks through transposes: the inverse of one gives its operand.
mlir::Value transposeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x,
                        llvm::ArrayRef<int64_t> permutation);
/// A splat constant becomes one of the wanted shape.
mlir::Value broadcastTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> shape);
mlir::Value sliceOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> sizes);
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type, double value);
mlir::Value splatLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value like, double value);

/// The one value of a splat float constant, also behind a broadcast or reshape.
std::optional<double> splatValue(mlir::Value value);
/// The operand of a chain of broadcasts and reshapes that only add or move dimensions of size 1; else `value` itself.
mlir::Value throughBroadcast(mlir::Value value);

} // namespace ztc::importer
