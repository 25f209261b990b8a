// Indices of elements or tuples as places in a table of rows: what gathers, scatters and the choice of experts share.
#pragma once
#include "frontends/onnx/Emitter.h"

namespace ztc::importer {

/// `count` rows of a tensor seen as (rows, width): constants, or i32 data of shape (count).
struct Places {
  int64_t rows = 0, width = 1, count = 0;
  std::optional<llvm::SmallVector<int64_t>> known;
  mlir::Value value;
};

/// Of input 1 into input 0 as GatherElements and ScatterElements mean it; none after a diagnostic.
std::optional<Places> elementPlaces(Emitter &e, int64_t axis);
/// As GatherND and ScatterND mean it: tuples in the last dimension, after `batchRank` common dimensions.
std::optional<Places> tuplePlaces(Emitter &e, int64_t batchRank);

/// Of each row the largest elements, the largest first and of equals the first: k values and k indices of i32, which
/// have size 1 in the last dimension.
struct LargestOfRows {
  llvm::SmallVector<graph::Expr> values, indices;
};
/// Of `rows` by `order`, floats of the same shape.
LargestOfRows largestOfRows(const graph::Expr &rows, const graph::Expr &order, int64_t k);

/// (T, size): zeros, and in row t values[t, j] at place indices[t, j], of i32, which differ.
graph::Expr placedAmongZeros(Emitter &e, const graph::Expr &indices, const graph::Expr &values, int64_t size);

} // namespace ztc::importer
