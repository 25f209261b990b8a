#include "compiler/Reference/Tensor.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/Format/BlockState.h"
#include "llvm/ADT/APFloat.h"
#include <numeric>

using namespace mlir;

namespace ztc {

Tensor::Tensor(ArrayRef<int64_t> shape, Type elementType)
    : shape(shape.begin(), shape.end()), elementType(elementType) {
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

static double toDouble(APFloat value) {
  bool losesInfo = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToDouble();
}

/// Reads element `i` of little-endian raw data.
static APInt rawElement(ArrayRef<char> data, int64_t i, unsigned bytes) {
  uint64_t bits = 0;
  memcpy(&bits, data.data() + i * bytes, bytes);
  return APInt(bytes * 8, bits);
}

static FailureOr<Tensor> fromResource(DenseResourceElementsAttr attribute) {
  Tensor tensor(cast<RankedTensorType>(attribute.getType()));
  AsmResourceBlob *blob = attribute.getRawHandle().getBlob();
  unsigned bytes = (attribute.getElementType().getIntOrFloatBitWidth() + 7) / 8;
  if (!blob || static_cast<int64_t>(blob->getData().size()) != tensor.count() * bytes)
    return failure();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    APInt bits = rawElement(blob->getData(), i, bytes);
    if (auto floatType = dyn_cast<FloatType>(tensor.elementType))
      tensor.reals[i] = toDouble(APFloat(floatType.getFloatSemantics(), bits));
    else
      tensor.integers[i] = tensor.elementType.isInteger(1) ? bits != 0 : bits.getSExtValue();
  }
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

int64_t Tensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
}

SmallVector<int64_t> Tensor::strides() const {
  SmallVector<int64_t> result(shape.size(), 1);
  for (int64_t d = rank() - 2; d >= 0; --d)
    result[d] = result[d + 1] * shape[d + 1];
  return result;
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
  float single = static_cast<float>(value);
  if (isa<graph::Block8Type>(type)) // whole blocks are rounded, by who gives them
    return single;
  auto floatType = cast<FloatType>(type);
  if (floatType.isF32())
    return single;
  APFloat narrow(single);
  bool losesInfo = false;
  narrow.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return toDouble(narrow);
}

} // namespace ztc
