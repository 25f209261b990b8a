// Weights in fewer bits: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/QuantizedWeight.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult DequantizeOp::verify() {
  auto bytes = cast<RankedTensorType>(getCodes().getType()), y = cast<RankedTensorType>(getY().getType());
  // (C1)
  const ztc::plan::WeightFormat format = ztc::weightFormat(getFormat());
  if (format == ztc::plan::PLAIN)
    return emitOpError("knows the formats nf4 and int8, not ") << getFormat();
  // (C2)
  if (y.getRank() != 2)
    return emitOpError("gives no matrix: ") << y;
  // (C3)
  auto layout = ztc::quantizedLayout(format, uint64_t(y.getDimSize(0)), uint64_t(y.getDimSize(1)));
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
