// Derivative of the matrix product: two products again, with flags instead of transposes.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult MatmulOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  if (!cotangent)
    return success();
  Expr a(builder, getLoc(), context.operand(0)), b = a.with(context.operand(1));
  // The result may be wider than the operands; both factors of a product have one type.
  Expr g = castTo(a.with(cotangent), a.elementType());
  bool ta = getTransposeA(), tb = getTransposeB();
  // y = A B with A = op(a): dA = g B^T, and da is dA or its transpose; db likewise from dB = A^T g. The weight's side
  // comes first: it may be the last reader of the saved activation a, which then makes room for da.
  if (context.wants(1))
    context.accumulate(1, (tb ? matmul(g, a, true, ta) : matmul(a, g, !ta, false)).value());
  if (context.wants(0))
    context.accumulate(0, (ta ? matmul(b, g, tb, true) : matmul(g, b, false, !tb)).value());
  return success();
}
