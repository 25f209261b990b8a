#include "compiler/Reference/Tensor.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Tensors/Elements.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/Format/BlockState.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;

namespace ztc {

Tensor::Tensor(ArrayRef<int64_t> shape, Type elementType) : elementType(elementType) {
  this->shape.assign(shape.begin(), shape.end());
  if (isReal())
    reals.assign(count(), 0.0);
  else
    integers.assign(count(), 0);
}

Tensor Tensor::scalar(double value, Type elementType) {
  Tensor tensor({}, elementType);
  tensor.reals[0] = value;
  return tensor;
}

static FailureOr<Tensor> fromResource(DenseResourceElementsAttr attribute) {
  Tensor tensor;
  tensor.shape.assign(attribute.getType().getShape().begin(), attribute.getType().getShape().end());
  tensor.elementType = attribute.getElementType();
  AsmResourceBlob *blob = attribute.getRawHandle().getBlob();
  unsigned bytes = (attribute.getElementType().getIntOrFloatBitWidth() + 7) / 8;
  if (!blob || static_cast<int64_t>(blob->getData().size()) != tensor.count() * bytes)
    return failure();
  if (auto floatType = dyn_cast<FloatType>(tensor.elementType))
    readFloats(blob->getData(), floatType.getFloatSemantics(), tensor.reals);
  else
    readIntegers(blob->getData(), bytes, true, tensor.integers);
  if (tensor.elementType.isInteger(1))
    for (int64_t &bit : tensor.integers)
      bit = bit != 0;
  return tensor;
}

FailureOr<Tensor> Tensor::fromAttribute(ElementsAttr attribute) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attribute))
    return fromResource(resource);
  auto dense = dyn_cast<DenseElementsAttr>(attribute);
  if (!dense || !isa<RankedTensorType>(dense.getType()))
    return failure();
  Tensor tensor(cast<RankedTensorType>(dense.getType()));
  if (tensor.isReal()) {
    for (auto [i, value] : llvm::enumerate(dense.getValues<APFloat>()))
      tensor.reals[i] = toDouble(value);
  } else {
    bool isBool = tensor.elementType.isInteger(1);
    for (auto [i, value] : llvm::enumerate(dense.getValues<APInt>()))
      tensor.integers[i] = isBool ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
  }
  return tensor;
}

Tensor Tensor::reshaped(ArrayRef<int64_t> newShape) const {
  Tensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

bool isStoredNarrow(Type type) {
  return !type.isIntOrFloat() || type.getIntOrFloatBitWidth() < 32;
}

void roundToBlocks(Tensor &tensor) {
  std::vector<float> values(tensor.reals.begin(), tensor.reals.end());
  roundThroughBlocks(values, cast<graph::Block8Type>(tensor.elementType).getIsSigned());
  llvm::copy(values, tensor.reals.begin());
}

double roundTo(double value, Type type) {
  if (type.isF64())
    return value;
  if (type.isF32() || isa<graph::Block8Type>(type)) // whole blocks are rounded where they are written
    return static_cast<float>(value);
  return roundThroughF32(value, cast<FloatType>(type).getFloatSemantics());
}

} // namespace ztc
