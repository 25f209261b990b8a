#include "passes/Adapters/Magnitude.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Detached.h"
#include "mlir/IR/Operation.h"

using namespace mlir;

namespace ztc::adapters {
using graph::Expr;

/// f32 in every precision, as the norm of a row loses bits fast and costs no memory.
static Expr wide(const Expr &x) {
  x.value().getDefiningOp()->setAttr(graph::kWide, x.builder().getUnitAttr());
  return x;
}

Expr magnitudeOverNorm(const ChangedWeight &changed, const Expr &magnitude) {
  const Expr &w = changed.weight, &a = changed.a, &b = changed.b;
  const int64_t outputs = magnitude.dim(0), inputsAxis = changed.isOutputFirst ? 1 : 0;
  Expr squares = graph::reshape(wide(graph::reduceSum(wide(w * w), {inputsAxis})), {outputs});
  Expr crossed = wide(graph::matmul(w, a, /*transposeA=*/!changed.isOutputFirst, /*transposeB=*/true));
  Expr own = wide(graph::matmul(b, wide(graph::matmul(a, a, false, /*transposeB=*/true))));
  Expr change = wide(wide(crossed * (2 * changed.scale)) + wide(own * (changed.scale * changed.scale)));
  Expr added = graph::reshape(wide(graph::reduceSumLast(wide(b * change))), {outputs});
  Expr norm = wide(graph::sqrt(wide(squares + added)));
  norm.value().getDefiningOp()->setAttr(graph::kDetached, norm.builder().getUnitAttr());
  return wide(magnitude / norm);
}

Expr scaleColumns(const Expr &x, const Expr &factors, int64_t begin) {
  Expr all = factors;
  auto ones = [&](int64_t count) {
    auto type = factors.type().clone(ArrayRef<int64_t>{count});
    return x.with(graph::makeConstant(x.builder(), x.loc(), type, 1.0));
  };
  const int64_t columns = x.dim(x.rank() - 1), after = columns - begin - factors.dim(0);
  if (begin > 0 || after > 0) {
    SmallVector<Expr> parts;
    if (begin > 0)
      parts.push_back(ones(begin));
    parts.push_back(factors);
    if (after > 0)
      parts.push_back(ones(after));
    all = wide(graph::concat(parts, 0));
  }
  return x * wide(graph::broadcastLike(all, x));
}

} // namespace ztc::adapters
