#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

namespace {
template <typename OpTy, typename... Args> Expr emit(const Expr &place, Args &&...args) {
  return place.with(OpTy::create(place.builder(), place.loc(), std::forward<Args>(args)...)->getResult(0));
}

Expr compare(const Expr &a, const Expr &b, Comparison predicate) {
  Type type = a.type().clone(a.builder().getI1Type());
  return emit<CompareOp>(a, type, a.value(), b.value(), predicate);
}
} // namespace

namespace ztc::graph {

Expr operator+(const Expr &a, const Expr &b) {
  return emit<AddOp>(a, a.value(), b.value());
}
Expr operator-(const Expr &a, const Expr &b) {
  return emit<SubOp>(a, a.value(), b.value());
}
Expr operator*(const Expr &a, const Expr &b) {
  return emit<MulOp>(a, a.value(), b.value());
}
Expr operator/(const Expr &a, const Expr &b) {
  return emit<DivOp>(a, a.value(), b.value());
}
Expr operator-(const Expr &x) {
  return emit<NegOp>(x, x.value());
}

Expr operator+(const Expr &a, double b) {
  return a + constantLike(a, b);
}
Expr operator-(const Expr &a, double b) {
  return a - constantLike(a, b);
}
Expr operator*(const Expr &a, double b) {
  return a * constantLike(a, b);
}
Expr operator/(const Expr &a, double b) {
  return a / constantLike(a, b);
}
Expr operator+(double a, const Expr &b) {
  return constantLike(b, a) + b;
}
Expr operator-(double a, const Expr &b) {
  return constantLike(b, a) - b;
}
Expr operator*(double a, const Expr &b) {
  return constantLike(b, a) * b;
}
Expr operator/(double a, const Expr &b) {
  return constantLike(b, a) / b;
}

Expr operator>=(const Expr &a, const Expr &b) {
  return compare(a, b, Comparison::GreaterOrEqual);
}
Expr operator<=(const Expr &a, const Expr &b) {
  return compare(a, b, Comparison::LessOrEqual);
}
Expr operator>(const Expr &a, const Expr &b) {
  return compare(a, b, Comparison::Greater);
}
Expr operator<(const Expr &a, const Expr &b) {
  return compare(a, b, Comparison::Less);
}
Expr operator==(const Expr &a, const Expr &b) {
  return compare(a, b, Comparison::Equal);
}
Expr operator&(const Expr &a, const Expr &b) {
  return emit<LogicOp>(a, a.value(), b.value(), Logic::And);
}

Expr select(const Expr &condition, const Expr &a, const Expr &b) {
  return emit<SelectOp>(a, a.type(), condition.value(), a.value(), b.value());
}
Expr exp(const Expr &x) {
  return emit<ExpOp>(x, x.value());
}
Expr log(const Expr &x) {
  return emit<LogOp>(x, x.value());
}
Expr sqrt(const Expr &x) {
  return emit<SqrtOp>(x, x.value());
}
Expr rsqrt(const Expr &x) {
  return emit<RsqrtOp>(x, x.value());
}
Expr sigmoid(const Expr &x) {
  return emit<SigmoidOp>(x, x.value());
}
Expr sin(const Expr &x) {
  return emit<SinOp>(x, x.value());
}
Expr cos(const Expr &x) {
  return emit<CosOp>(x, x.value());
}
Expr power(const Expr &x, double exponent) {
  return emit<PowerOp>(x, x.value(), x.builder().getF64FloatAttr(exponent));
}

Expr tensorPower(const Expr &a, const Expr &b) {
  return emit<TensorPowerOp>(a, a.value(), b.value());
}
Expr tanh(const Expr &x) {
  return emit<TanhOp>(x, x.value());
}
Expr truncate(const Expr &x) {
  return emit<RoundOp>(x, x.value(), Rounding::Truncate);
}

Value makeConstant(OpBuilder &builder, Location loc, RankedTensorType type, double number) {
  Type element = type.getElementType();
  Attribute scalar;
  if (isa<FloatType>(element))
    scalar = builder.getFloatAttr(element, number);
  else
    scalar = builder.getIntegerAttr(element, static_cast<int64_t>(number));
  if (type.hasStaticShape() && !type.getEncoding())
    return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, scalar));
  auto scalarType = RankedTensorType::get({}, element);
  Value value = ConstantOp::create(builder, loc, DenseElementsAttr::get(scalarType, scalar));
  return BroadcastOp::create(builder, loc, type, value);
}

Expr constantLike(const Expr &like, double number) {
  return like.with(makeConstant(like.builder(), like.loc(), like.type(), number));
}
Expr zeroLike(const Expr &like) {
  return constantLike(like, 0.0);
}

Expr castTo(const Expr &x, Type elementType) {
  return x.elementType() == elementType ? x : emit<CastOp>(x, x.type().clone(elementType), x.value());
}
Expr widen(const Expr &x) {
  return castTo(x, computeType(x.elementType()));
}
Expr reshape(const Expr &x, ArrayRef<int64_t> shape) {
  return x.type().getShape() == shape ? x : emit<ReshapeOp>(x, x.type().clone(shape), x.value());
}
Expr transpose(const Expr &x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t from : permutation)
    shape.push_back(x.dim(from));
  return emit<TransposeOp>(x, x.type().clone(shape), x.value(), permutation);
}
Expr broadcast(const Expr &x, ArrayRef<int64_t> shape) {
  return x.type().getShape() == shape ? x : emit<BroadcastOp>(x, x.type().clone(shape), x.value());
}
Expr broadcastLike(const Expr &x, const Expr &like) {
  if (x.type().getShape() == like.type().getShape())
    return x;
  // The whole type, not the shape alone: a flat bucket's type carries its layout.
  return emit<BroadcastOp>(x, like.type().clone(x.elementType()), x.value());
}
Expr slice(const Expr &x, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  return emit<SliceOp>(x, x.type().clone(sizes), x.value(), offsets);
}
Expr sliceLast(const Expr &x, int64_t offset, int64_t size) {
  SmallVector<int64_t> offsets(x.rank(), 0), sizes(x.type().getShape());
  offsets.back() = offset;
  sizes.back() = size;
  return slice(x, offsets, sizes);
}
Expr concat(ArrayRef<Expr> parts, int64_t axis) {
  SmallVector<int64_t> shape(parts.front().type().getShape());
  SmallVector<Value> values;
  shape[axis] = 0;
  for (const Expr &part : parts) {
    values.push_back(part.value());
    shape[axis] += part.dim(axis);
  }
  return emit<ConcatOp>(parts.front(), parts.front().type().clone(shape), values, axis);
}
Expr reduceSum(const Expr &x, ArrayRef<int64_t> axes) {
  return emit<ReduceSumOp>(x, x.value(), axes);
}
Expr reduceSumLast(const Expr &x) {
  return reduceSum(x, {x.rank() - 1});
}
Expr reduceMaxLast(const Expr &x) {
  return emit<ReduceMaxOp>(x, x.value(), ArrayRef<int64_t>{x.rank() - 1});
}
Expr matmul(const Expr &a, const Expr &b, bool transposeA, bool transposeB) {
  return emit<MatmulOp>(a, a.value(), b.value(), transposeA, transposeB);
}
Expr wideMatmul(const Expr &a, const Expr &b, bool transposeA, bool transposeB) {
  auto type = cast<RankedTensorType>(matmulType(a.type(), b.type(), transposeA, transposeB));
  return emit<MatmulOp>(a, type.clone(computeType(type.getElementType())), a.value(), b.value(), transposeA,
                        transposeB);
}

} // namespace ztc::graph
