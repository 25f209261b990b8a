// Reference rules of the row gather and its transpose.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"

using namespace mlir;

namespace ztc {
namespace {

LogicalResult checkIndices(Operation *op, const Tensor &indices, int64_t rows) {
  for (int64_t index : indices.integers)
    if (index < 0 || index >= rows)
      return op->emitOpError("index ") << index << " is outside a table of " << rows << " rows";
  return success();
}

LogicalResult runEmbedding(graph::EmbeddingOp op, Operands operands, Results results) {
  const Tensor &table = *operands[0], &indices = *operands[1];
  int64_t D = table.shape[1];
  if (failed(checkIndices(op, indices, table.shape[0])))
    return failure();
  for (int64_t p = 0; p < indices.count(); ++p)
    for (int64_t d = 0; d < D; ++d)
      if (table.isReal())
        results[0].reals[p * D + d] = table.reals[indices.integers[p] * D + d];
      else
        results[0].integers[p * D + d] = table.integers[indices.integers[p] * D + d];
  return success();
}

LogicalResult runEmbeddingGrad(graph::EmbeddingGradOp op, Operands operands, Results results) {
  const Tensor &indices = *operands[0], &dy = *operands[1];
  int64_t D = results[0].shape[1];
  if (failed(checkIndices(op, indices, results[0].shape[0])))
    return failure();
  for (int64_t p = 0; p < indices.count(); ++p)
    for (int64_t d = 0; d < D; ++d)
      results[0].reals[indices.integers[p] * D + d] += dy.reals[p * D + d];
  return success();
}

} // namespace

void addEmbeddingRules(RuleTable &table) {
  table.add<graph::EmbeddingOp>(runEmbedding);
  table.add<graph::EmbeddingGradOp>(runEmbeddingGrad);
}

} // namespace ztc
