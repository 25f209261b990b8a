// Row gather and its transpose: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"

using namespace mlir;
using namespace ztc::graph;

/// The rows' shape is the indices' plus D.
static LogicalResult verifyRows(Operation *op, Value table, Value indices, Value rows) {
  SmallVector<int64_t> expected(tensorOf(indices).getShape());
  expected.push_back(tensorOf(table).getDimSize(1));
  if (tensorOf(rows).getShape() != ArrayRef<int64_t>(expected))
    return op->emitOpError("rows do not have the indices' shape plus ")
           << expected.back() << ": " << tensorOf(rows) << " for " << tensorOf(indices);
  return success();
}

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = tensorOf(getTable()), y = tensorOf(getY());
  // (C1)
  if (table.getRank() != 2)
    return emitOpError("table is not 2-D: ") << table;
  // (C2)
  if (failed(verifyRows(*this, getTable(), getIndices(), getY())))
    return failure();
  // (C3)
  if (table.getElementType() != y.getElementType())
    return emitOpError("element types of table and result differ: ")
           << table.getElementType() << " and " << y.getElementType();
  // (C4)
  if (std::optional<int64_t> padding = getPadding(); padding && (*padding < 0 || *padding >= table.getDimSize(0)))
    return emitOpError("padding row ") << *padding << " is outside of the table: " << table;
  return success();
}

LogicalResult EmbeddingGradOp::verify() {
  // (C1)
  if (tensorOf(getDtable()).getRank() != 2)
    return emitOpError("table is not 2-D: ") << tensorOf(getDtable());
  // (C2)
  return verifyRows(*this, getDtable(), getIndices(), getDy());
}

bool EmbeddingGradOp::canAccumulate(unsigned) {
  return true;
}

int64_t EmbeddingOp::getFlops() {
  return 0;
}
int64_t EmbeddingGradOp::getFlops() {
  return elementCount(getDy());
}
