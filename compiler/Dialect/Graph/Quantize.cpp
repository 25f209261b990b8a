// Weights in fewer bits: constraints and costs.
#include "compiler/Dialect/Graph/WeightFormats.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult DequantizeOp::verify() {
  auto bytes = cast<RankedTensorType>(getCodes().getType()), y = cast<RankedTensorType>(getY().getType());
  // (C1)
  if (y.getRank() != 2)
    return emitOpError("does not give a matrix: ") << y;
  // (C2)
  auto layout = ztc::quantizedLayout(planFormat(getFormat()), uint64_t(y.getDimSize(0)), uint64_t(y.getDimSize(1)));
  if (!layout || bytes.getDimSize(0) != int64_t(layout->bytes))
    return emitOpError("reads ") << bytes << ", " << y << " needs " << (layout ? int64_t(layout->bytes) : -1)
                                 << " bytes";
  return success();
}

StringRef DequantizeOp::getTransientResult() {
  return "the numbers of a weight in fewer bits";
}

int64_t DequantizeOp::getFlops() {
  return elementCount(getY());
}
