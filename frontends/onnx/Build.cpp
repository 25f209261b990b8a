#include "frontends/onnx/Build.h"

using namespace mlir;

namespace ztc::importer {

Value reshapeTo(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> shape) {
  if (auto inner = x.getDefiningOp<graph::ReshapeOp>())
    x = inner.getX();
  if (shapeOf(x) == shape)
    return x;
  return graph::ReshapeOp::create(builder, loc, RankedTensorType::get(shape, typeOf(x).getElementType()), x);
}

Value transposeTo(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> whole(permutation);
  if (auto inner = x.getDefiningOp<graph::TransposeOp>()) {
    for (int64_t &p : whole)
      p = inner.getPermutation()[p];
    x = inner.getX();
  }
  bool isIdentity = true;
  SmallVector<int64_t> shape;
  for (auto [i, p] : llvm::enumerate(whole)) {
    isIdentity &= int64_t(i) == p;
    shape.push_back(shapeOf(x)[p]);
  }
  if (isIdentity)
    return x;
  return graph::TransposeOp::create(builder, loc, RankedTensorType::get(shape, typeOf(x).getElementType()), x, whole);
}

Value broadcastTo(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  if (auto inner = x.getDefiningOp<graph::BroadcastOp>())
    x = inner.getX();
  auto type = RankedTensorType::get(shape, typeOf(x).getElementType());
  if (auto constant = x.getDefiningOp<graph::ConstantOp>())
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
      return graph::ConstantOp::create(builder, loc, type, dense.resizeSplat(type));
  return graph::BroadcastOp::create(builder, loc, type, x);
}

Value sliceOf(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  if (shapeOf(x) == sizes)
    return x;
  return graph::SliceOp::create(builder, loc, RankedTensorType::get(sizes, typeOf(x).getElementType()), x, offsets);
}

Value splat(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  mlir::Attribute element;
  if (auto real = dyn_cast<FloatType>(type.getElementType()))
    element = FloatAttr::get(real, value);
  else
    element = IntegerAttr::get(type.getElementType(), static_cast<int64_t>(value));
  return graph::ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, element));
}

Value splatLike(OpBuilder &builder, Location loc, Value like, double value) {
  return splat(builder, loc, typeOf(like), value);
}

Value throughBroadcast(Value value) {
  while (true) {
    if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>()) {
      value = broadcast.getX();
    } else if (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
      auto isUnit = [](int64_t size) { return size == 1; };
      SmallVector<int64_t> from(shapeOf(reshape.getX())), to(shapeOf(value));
      llvm::erase_if(from, isUnit);
      llvm::erase_if(to, isUnit);
      if (from != to)
        return value;
      value = reshape.getX();
    } else {
      return value;
    }
  }
}

std::optional<double> splatValue(Value value) {
  auto constant = throughBroadcast(value).getDefiningOp<graph::ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APFloat>().convertToDouble();
}

} // namespace ztc::importer
