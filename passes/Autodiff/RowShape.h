// Which dimensions of a tensor count rows: sequences, positions.
#pragma once
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include <compare>
#include <optional>
#include <vector>

namespace ztc {

/// How many sequences and how many positions a dimension counts. They are its outermost part: a dimension of size n
/// consists of n / (sequences * positions) elements of each; of both the sequences come first.
struct RowCount {
  int64_t sequences = 1, positions = 1;
  int64_t rows() const { return sequences * positions; }
  auto operator<=>(const RowCount &) const = default;
};
/// By dimension of a value.
using RowShape = std::vector<RowCount>;

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline RowShape noRows(mlir::Value value) {
  return RowShape(shapeOf(value).size());
}
bool anyRows(const RowShape &rows);
/// The shape of one row.
llvm::SmallVector<int64_t> shrunk(llvm::ArrayRef<int64_t> shape, const RowShape &rows);
/// The rows of `to`, another shape of the same elements, or nothing where they are no longer the outermost part of a
/// dimension.
std::optional<RowShape> reshapedRows(llvm::ArrayRef<int64_t> from, const RowShape &rows, llvm::ArrayRef<int64_t> to);
/// Lets what stands for the result of `op` compute in f32 where `op` does (graph::kWide): `twin` and the ops that move
/// it there, of those that were made between `before`, null at the beginning of a block, and `op`.
void markWideAs(mlir::Operation &op, mlir::Operation *before, mlir::Value twin);

} // namespace ztc
