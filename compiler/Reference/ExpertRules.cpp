// Reference rules of rows that go to groups, from the formulas in GraphExperts.td.
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Reference/Interpreter.h"
#include <algorithm>

using namespace mlir;

namespace ztc {
namespace {

void runRoute(graph::RouteOp, Operands operands, Results results) {
  const Tensor &choices = *operands[0];
  Tensor &order = results[0], &places = results[1], &starts = results[2];
  const int64_t experts = starts.count() - 1;
  int64_t row = 0;
  for (int64_t expert = 0; expert < experts; ++expert) {
    starts.integers[expert] = row;
    for (int64_t p = 0; p < choices.count(); ++p)
      if (std::clamp<int64_t>(choices.integers[p], 0, experts - 1) == expert) {
        order.integers[row] = p;
        places.integers[p] = row++;
      }
  }
  starts.integers[experts] = row;
}

void runDispatch(graph::DispatchOp, Operands operands, Results results) {
  const Tensor &x = *operands[0], &order = *operands[1];
  const int64_t D = x.shape[1], K = operands[2]->shape[1];
  for (int64_t r = 0; r < order.count(); ++r)
    std::copy_n(x.reals.begin() + order.integers[r] / K * D, D, results[0].reals.begin() + r * D);
}

void runCombine(graph::CombineOp, Operands operands, Results results) {
  const Tensor &x = *operands[0], &places = *operands[2];
  const int64_t D = x.shape[1], K = places.shape[1];
  for (int64_t p = 0; p < places.count(); ++p)
    for (int64_t d = 0; d < D; ++d)
      results[0].reals[p / K * D + d] += x.reals[places.integers[p] * D + d];
}

void runGroupedMatmul(graph::GroupedMatmulOp op, Operands operands, Results results) {
  const Tensor &x = *operands[0], &w = *operands[1], &starts = *operands[2];
  Tensor &y = results[0];
  const int64_t K = x.shape[1], N = y.shape[1];
  const int64_t wRow = op.getTransposeB() ? 1 : N, wColumn = op.getTransposeB() ? K : 1;
  for (int64_t e = 0; e + 1 < starts.count(); ++e)
    for (int64_t r = starts.integers[e]; r < starts.integers[e + 1]; ++r)
      for (int64_t k = 0; k < K; ++k)
        for (int64_t n = 0; n < N; ++n)
          y.reals[r * N + n] += x.reals[r * K + k] * w.reals[e * K * N + k * wRow + n * wColumn];
}

void runGroupedOuter(graph::GroupedOuterOp, Operands operands, Results results) {
  const Tensor &a = *operands[0], &b = *operands[1], &starts = *operands[2];
  Tensor &y = results[0];
  const int64_t M = a.shape[1], N = b.shape[1];
  for (int64_t e = 0; e + 1 < starts.count(); ++e)
    for (int64_t r = starts.integers[e]; r < starts.integers[e + 1]; ++r)
      for (int64_t m = 0; m < M; ++m)
        for (int64_t n = 0; n < N; ++n)
          y.reals[(e * M + m) * N + n] += a.reals[r * M + m] * b.reals[r * N + n];
}

} // namespace

void addExpertRules(RuleTable &table) {
  table.add<graph::RouteOp>(runRoute);
  table.add<graph::DispatchOp>(runDispatch);
  table.add<graph::CombineOp>(runCombine);
  table.add<graph::GroupedMatmulOp>(runGroupedMatmul);
  table.add<graph::GroupedOuterOp>(runGroupedOuter);
}

} // namespace ztc
