// linear_cross_entropy with the logits tensor: the oracle of the chunked form.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

FailureOr<SmallVector<Value>> LinearCrossEntropyOp::decompose(OpBuilder &builder) {
  Expr hidden(builder, getLoc(), getHidden()), head = hidden.with(getHead());
  Expr logits = matmul(hidden, head, false, true);
  Type scalar = RankedTensorType::get({}, logits.elementType());
  Expr loss = hidden.with(CrossEntropyOp::create(builder, getLoc(), scalar, logits.value(), getTargets()));
  SmallVector<Value> results{castTo(loss, getElementTypeOrSelf(getLoss().getType())).value()};
  if (getScale()) {
    Expr scale = castTo(hidden.with(getScale()), logits.elementType());
    Expr dlogits = hidden.with(
        CrossEntropyGradOp::create(builder, getLoc(), logits.type(), logits.value(), getTargets(), scale.value()));
    results.push_back(matmul(dlogits, head).value());
    results.push_back(matmul(dlogits, hidden, true, false).value());
  }
  return results;
}
