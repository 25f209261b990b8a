// linear_cross_entropy with the logits tensor: the oracle of the chunked form.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

FailureOr<SmallVector<Value>> LinearCrossEntropyOp::decompose(OpBuilder &builder) {
  Expr hidden(builder, getLoc(), getHidden()), head = hidden.with(getHead());
  Expr logits = wideMatmul(hidden, head, false, true);
  Type scalar = RankedTensorType::get({}, logits.elementType());
  Expr loss = hidden.with(CrossEntropyOp::create(builder, getLoc(), scalar, logits.value(), getTargets()));
  SmallVector<Value> results{castTo(loss, getElementTypeOrSelf(getLoss().getType())).value()};
  if (getScale()) {
    Expr scale = castTo(hidden.with(getScale()), logits.elementType());
    Expr dlogits = hidden.with(
        CrossEntropyGradOp::create(builder, getLoc(), logits.type(), logits.value(), getTargets(), scale.value()));
    dlogits = castTo(dlogits, hidden.elementType());
    results.push_back(matmul(dlogits, head).value());
    Expr dhead = wideMatmul(dlogits, hidden, true, false);
    results.push_back(castTo(dhead, getElementTypeOrSelf(getDhead().getType())).value());
  }
  return results;
}
