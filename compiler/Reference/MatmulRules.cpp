// Reference rules of the matrix product, and of those with a sum.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Reference/Interpreter.h"
#include "runtime/Core/Gelu.h"
#include <cmath>

using namespace mlir;

namespace ztc {
namespace {

/// Adds the product to what `y` holds.
template <typename Op> void addProduct(Op op, Operands operands, Tensor &y) {
  const Tensor &a = *operands[0], &b = *operands[1];
  int64_t rank = y.rank(), M = y.shape[rank - 2], N = y.shape[rank - 1];
  int64_t K = a.shape[op.getTransposeA() ? rank - 2 : rank - 1];
  // Element (row, column) of op(x) stands at row * rowStride + column * columnStride.
  int64_t aRow = op.getTransposeA() ? 1 : K, aColumn = op.getTransposeA() ? M : 1;
  int64_t bRow = op.getTransposeB() ? 1 : N, bColumn = op.getTransposeB() ? K : 1;
  int64_t batches = M * N == 0 ? 0 : y.count() / (M * N);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const double *left = a.reals.data() + batch * M * K;
    const double *right = b.reals.data() + batch * K * N;
    double *out = y.reals.data() + batch * M * N;
    for (int64_t m = 0; m < M; ++m)
      for (int64_t k = 0; k < K; ++k)
        for (int64_t n = 0; n < N; ++n)
          out[m * N + n] += left[m * aRow + k * aColumn] * right[k * bRow + n * bColumn];
  }
}

void runMatmul(graph::MatmulOp op, Operands operands, Results results) {
  addProduct(op, operands, results[0]);
}

/// Adds `bias` to each row of `y`.
void addBias(const Tensor &bias, Tensor &y) {
  for (size_t i = 0; i < y.reals.size(); ++i)
    y.reals[i] += bias.reals[i % bias.reals.size()];
}

void runMatmulAdd(graph::MatmulAddOp op, Operands operands, Results results) {
  Tensor &y = results[0];
  addProduct(op, operands, y);
  for (size_t i = 0; i < y.reals.size(); ++i)
    y.reals[i] += operands[2]->reals[i];
  if (op.getBias())
    addBias(*operands[3], y);
}

void runMatmulBias(graph::MatmulBiasOp op, Operands operands, Results results) {
  addProduct(op, operands, results[0]);
  addBias(*operands[2], results[0]);
}

void runMatmulGelu(graph::MatmulGeluOp op, Operands operands, Results results) {
  Tensor &y = results[0];
  addProduct(op, operands, y);
  addBias(*operands[2], y);
  if (op.getSums())
    results[1].reals = y.reals;
  for (double &x : y.reals)
    x = 0.5 * x * (1 + std::tanh(double(kGeluScale) * (x + double(kGeluCubic) * x * x * x)));
}

} // namespace

void addMatmulRules(RuleTable &table) {
  table.add<graph::MatmulOp>(runMatmul);
  table.add<graph::MatmulAddOp>(runMatmulAdd);
  table.add<graph::MatmulBiasOp>(runMatmulBias);
  table.add<graph::MatmulGeluOp>(runMatmulGelu);
}

} // namespace ztc
