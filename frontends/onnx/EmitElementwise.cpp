// Emission of arithmetic, comparison and logic.
#include "frontends/onnx/Emitter.h"
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

template <typename OpTy> LogicalResult binary(Emitter &e) {
  mlir::Value a = e.operand(0, e.outputShape()), b = a ? e.operand(1, e.outputShape()) : nullptr;
  if (!b)
    return failure();
  e.define(0, OpTy::create(e.builder, e.loc, a, b));
  return success();
}

template <typename OpTy> LogicalResult variadic(Emitter &e) {
  mlir::Value sum = e.operand(0, e.outputShape());
  for (unsigned i = 1; sum && i < e.node->inputs.size(); ++i) {
    mlir::Value next = e.operand(i, e.outputShape());
    if (!next)
      return failure();
    sum = OpTy::create(e.builder, e.loc, sum, next);
  }
  e.define(0, sum);
  return success(sum != nullptr);
}

template <typename OpTy> LogicalResult unary(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, OpTy::create(e.builder, e.loc, x));
  return success();
}

bool isReal(mlir::Value x) {
  return isa<FloatType>(typeOf(x).getElementType());
}

/// Integers have neither sign change nor absolute value as ops.
LogicalResult negative(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  Expr v = e.expr(x);
  e.define(0, (isReal(x) ? -v : zeroLike(v) - v).value());
  return success();
}

LogicalResult absolute(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  if (isReal(x))
    return unary<graph::AbsOp>(e);
  Expr v = e.expr(x);
  e.define(0, select(v < zeroLike(v), zeroLike(v) - v, v).value());
  return success();
}

LogicalResult mean(Emitter &e) {
  if (failed(variadic<graph::AddOp>(e)))
    return failure();
  Expr sum = e.expr(e.defined(0));
  e.define(0, (sum / double(e.node->inputs.size())).value());
  return success();
}

/// A whole exponent of an integer by squaring.
Expr wholePower(const Expr &a, int64_t exponent) {
  if (exponent <= 0)
    return constantLike(a, exponent == 0 ? 1 : 0);
  if (exponent == 1)
    return a;
  Expr half = wholePower(a, exponent / 2), square = half * half;
  return exponent % 2 ? square * a : square;
}

LogicalResult power(Emitter &e) {
  mlir::Value x = e.operand(0, e.outputShape());
  if (!x)
    return failure();
  TensorRef exponent = e.isLive(1) ? nullptr : e.constant(1);
  if (exponent && exponent->isSplat()) {
    double number = exponent->real(0);
    if (isReal(x))
      e.define(0, number == 1 ? x : graph::power(e.expr(x), number).value());
    else
      e.define(0, wholePower(e.expr(x), exponent->integer(0)).value());
    return success();
  }
  mlir::Value b = e.operand(1, e.outputShape());
  if (!b)
    return failure();
  Expr base = castTo(e.expr(x), e.builder.getF32Type()), wanted = castTo(e.expr(b), e.builder.getF32Type());
  e.define(0, castTo(tensorPower(base, wanted), typeOf(x).getElementType()).value());
  return success();
}

/// The remainder with the divisor's sign, or with fmod the dividend's.
LogicalResult modulo(Emitter &e) {
  mlir::Value x = e.operand(0, e.outputShape()), y = x ? e.operand(1, e.outputShape()) : nullptr;
  if (!y)
    return failure();
  Expr a = e.expr(x), b = e.expr(y), zero = zeroLike(a);
  Expr rest = e.expr(graph::RemainderOp::create(e.builder, e.loc, x, y));
  if (!e.node->integer("fmod", 0)) {
    Expr isNegative = rest<zero, isPositive = rest> zero;
    rest = select(isNegative & (b > zero), rest + b, select(isPositive & (b < zero), rest + b, rest));
  }
  e.define(0, rest.value());
  return success();
}

LogicalResult compareAs(Emitter &e, graph::Comparison predicate) {
  mlir::Value a = e.operand(0, e.outputShape()), b = a ? e.operand(1, e.outputShape()) : nullptr;
  if (!b)
    return failure();
  auto type = RankedTensorType::get(e.outputShape(), e.builder.getI1Type());
  e.define(0, graph::CompareOp::create(e.builder, e.loc, type, a, b, predicate));
  return success();
}

LogicalResult logicAs(Emitter &e, graph::Logic function) {
  mlir::Value a = e.operand(0, e.outputShape()), b = a ? e.operand(1, e.outputShape()) : nullptr;
  if (!b)
    return failure();
  e.define(0, graph::LogicOp::create(e.builder, e.loc, a, b, function));
  return success();
}

LogicalResult negation(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, graph::LogicOp::create(e.builder, e.loc, x, splatLike(e.builder, e.loc, x, 1), graph::Logic::Xor));
  return success();
}

/// NaN is the only value that differs from itself.
LogicalResult isNaN(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, graph::CompareOp::create(e.builder, e.loc, RankedTensorType::get(shapeOf(x), e.builder.getI1Type()), x, x,
                                       graph::Comparison::NotEqual));
  return success();
}

LogicalResult where(Emitter &e) {
  mlir::Value condition = e.operand(0, e.outputShape()), a = condition ? e.operand(1, e.outputShape()) : nullptr,
              b = a ? e.operand(2, e.outputShape()) : nullptr;
  if (!b)
    return failure();
  e.define(0, graph::SelectOp::create(e.builder, e.loc, a.getType(), condition, a, b));
  return success();
}

/// Casts between float types are dropped: there is one real type.
LogicalResult cast(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  auto type = RankedTensorType::get(shapeOf(x), e.elementType(e.output(0).type));
  e.define(0, type == x.getType() ? x : graph::CastOp::create(e.builder, e.loc, type, x).getResult());
  return success();
}

LogicalResult isInf(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  Expr v = e.expr(x);
  double infinity = std::numeric_limits<double>::infinity();
  bool positive = e.node->integer("detect_positive", 1) != 0, negative = e.node->integer("detect_negative", 1) != 0;
  Expr up = v == constantLike(v, infinity), down = v == constantLike(v, -infinity);
  mlir::Value none = splat(e.builder, e.loc, up.type(), 0);
  mlir::Value both = graph::LogicOp::create(e.builder, e.loc, up.value(), down.value(), graph::Logic::Or);
  e.define(0, positive && negative ? both : positive ? up.value() : negative ? down.value() : none);
  return success();
}

} // namespace

void addElementwiseEmission(llvm::StringMap<EmitFunction> &t) {
  t["Add"] = binary<graph::AddOp>;
  t["Sub"] = binary<graph::SubOp>;
  t["Mul"] = binary<graph::MulOp>;
  t["Div"] = binary<graph::DivOp>;
  t["Pow"] = power;
  t["Mod"] = modulo;
  t["Max"] = variadic<graph::MaximumOp>;
  t["Min"] = variadic<graph::MinimumOp>;
  t["Sum"] = variadic<graph::AddOp>;
  t["Mean"] = mean;
  t["Neg"] = negative;
  t["Abs"] = absolute;
  t["Exp"] = unary<graph::ExpOp>;
  t["Log"] = unary<graph::LogOp>;
  t["Sqrt"] = unary<graph::SqrtOp>;
  t["Reciprocal"] = unary<graph::ReciprocalOp>;
  t["Sigmoid"] = unary<graph::SigmoidOp>;
  t["Tanh"] = unary<graph::TanhOp>;
  t["Erf"] = unary<graph::ErfOp>;
  t["Sin"] = unary<graph::SinOp>;
  t["Cos"] = unary<graph::CosOp>;
  t["Equal"] = [](Emitter &e) { return compareAs(e, graph::Comparison::Equal); };
  t["Less"] = [](Emitter &e) { return compareAs(e, graph::Comparison::Less); };
  t["LessOrEqual"] = [](Emitter &e) { return compareAs(e, graph::Comparison::LessOrEqual); };
  t["Greater"] = [](Emitter &e) { return compareAs(e, graph::Comparison::Greater); };
  t["GreaterOrEqual"] = [](Emitter &e) { return compareAs(e, graph::Comparison::GreaterOrEqual); };
  t["And"] = [](Emitter &e) { return logicAs(e, graph::Logic::And); };
  t["Or"] = [](Emitter &e) { return logicAs(e, graph::Logic::Or); };
  t["Xor"] = [](Emitter &e) { return logicAs(e, graph::Logic::Xor); };
  t["Not"] = negation;
  t["IsNaN"] = isNaN;
  t["IsInf"] = isInf;
  t["Where"] = where;
  t["Cast"] = cast;
  t["CastLike"] = cast;
}

} // namespace ztc::importer
