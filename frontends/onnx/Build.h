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

/// The index along `dimension` as i32.
mlir::Value iotaOf(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> shape, int64_t dimension);
/// x in another element type; x itself where it has it.
mlir::Value castElements(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, mlir::Type element);
mlir::Value concatOf(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<mlir::Value> parts, int64_t axis);
/// `value` around x: low[d] elements before it along dimension d, high[d] after it; negative ones cut it.
mlir::Value padWith(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> low,
                    llvm::ArrayRef<int64_t> high, double value);
/// Positions of x along an axis in any order: slices where they are regular, else a lookup. Indices are >= 0.
mlir::Value takeAlong(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, int64_t axis,
                      llvm::ArrayRef<int64_t> indices);
/// Rows of a table (N, D) of any element type by i32 indices: the indices' shape plus D.
mlir::Value lookUpRows(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value table, mlir::Value indices);
/// x transposed so that `axis` stands at the front (the back); the permutation undoes it.
mlir::Value axisToFront(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, int64_t axis,
                        llvm::SmallVectorImpl<int64_t> &inverse);
mlir::Value axisToBack(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, int64_t axis,
                       llvm::SmallVectorImpl<int64_t> &inverse);
/// A constant of i32.
mlir::Value indexConstant(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> elements,
                          llvm::ArrayRef<int64_t> shape);

/// The one value of a splat float constant, also under a broadcast or reshape.
std::optional<double> splatValue(mlir::Value value);
/// The operand of a chain of broadcasts and reshapes that only add or move dimensions of size 1; else `value` itself.
mlir::Value throughBroadcast(mlir::Value value);

} // namespace ztc::importer
