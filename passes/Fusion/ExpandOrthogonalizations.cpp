#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-expand-orthogonalizations"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_EXPANDORTHOGONALIZATIONS
#include "passes/Fusion/Passes.h.inc"

namespace {

using graph::Expr;
using graph::NewtonSchulz;

/// x / max(|x|, smallest norm), of each matrix, the norm rounded to x's type.
Expr normalized(const Expr &x) {
  const Expr wide = graph::widen(x);
  SmallVector<int64_t> shape(x.type().getShape());
  shape.back() = 1;
  const Expr rows = graph::reduceSumLast(wide * wide);
  shape.pop_back();
  const Expr squares = graph::reduceSumLast(graph::reshape(rows, shape));
  const Expr norm = graph::castTo(graph::castTo(graph::sqrt(squares), x.elementType()), wide.elementType());
  const Expr smallest = graph::constantLike(norm, NewtonSchulz::smallestNorm);
  shape.back() = 1;
  shape.push_back(1);
  const Expr divisor = graph::reshape(graph::select(norm > smallest, norm, smallest), shape);
  return graph::castTo(wide / graph::broadcastLike(divisor, wide), x.elementType());
}

/// Products are of narrow factors; where something is added to one, the sum is taken in f32 and rounded once.
Expr orthogonalized(const Expr &matrix) {
  const int64_t rank = matrix.rank();
  const bool isTall = matrix.dim(rank - 2) > matrix.dim(rank - 1);
  const Type narrow = matrix.elementType();
  Expr x = normalized(matrix);
  for (int step = 0; step < NewtonSchulz::steps; ++step) {
    const Expr a = graph::matmul(x, x, /*transposeA=*/isTall, /*transposeB=*/!isTall);
    const Expr squared = graph::wideMatmul(a, a);
    const Expr b = graph::castTo(graph::widen(a) * NewtonSchulz::b + squared * NewtonSchulz::c, narrow);
    const Expr product = isTall ? graph::wideMatmul(x, b) : graph::wideMatmul(b, x);
    x = graph::castTo(graph::widen(x) * NewtonSchulz::a + product, narrow);
  }
  return x;
}

struct ExpandOrthogonalizations : impl::ExpandOrthogonalizationsBase<ExpandOrthogonalizations> {
  void runOnOperation() override {
    SmallVector<graph::OrthogonalizeOp> ops;
    getOperation().walk([&](graph::OrthogonalizeOp op) { ops.push_back(op); });
    if (ops.empty())
      return markAllAnalysesPreserved();
    for (graph::OrthogonalizeOp op : ops) {
      OpBuilder builder(op);
      op.replaceAllUsesWith(orthogonalized(Expr(builder, op.getLoc(), op.getX())).value());
      op.erase();
    }
  }
};
} // namespace
} // namespace ztc
