// Emission of arithmetic, comparison and logic.
#include "frontends/onnx/Emitter.h"

using namespace mlir;

namespace ztc::importer {
namespace {

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

/// x to a constant scalar.
LogicalResult power(Emitter &e) {
  if (e.isLive(1))
    return e.fail("the exponent depends on data");
  mlir::Value x = e.operand(0);
  TensorRef exponent = x ? e.constant(1) : nullptr;
  if (!exponent)
    return failure();
  if (!exponent->isSplat() || e.outputShape() != shapeOf(x))
    return e.fail("the exponent is not one number");
  e.define(0, graph::PowerOp::create(e.builder, e.loc, x.getType(), x, e.builder.getF64FloatAttr(exponent->real(0))));
  return success();
}

LogicalResult compareAs(Emitter &e, StringRef predicate) {
  mlir::Value a = e.operand(0, e.outputShape()), b = a ? e.operand(1, e.outputShape()) : nullptr;
  if (!b)
    return failure();
  auto type = RankedTensorType::get(e.outputShape(), e.builder.getI1Type());
  e.define(0, graph::CompareOp::create(e.builder, e.loc, type, a, b, predicate));
  return success();
}

LogicalResult logicAs(Emitter &e, StringRef function) {
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
  e.define(0, graph::LogicOp::create(e.builder, e.loc, x, splatLike(e.builder, e.loc, x, 1), "xor"));
  return success();
}

/// NaN is the only value that differs from itself.
LogicalResult isNaN(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, graph::CompareOp::create(e.builder, e.loc, RankedTensorType::get(shapeOf(x), e.builder.getI1Type()), x, x,
                                       "ne"));
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

/// 0.5 x (1 + erf(x / sqrt 2)), or its tanh form.
LogicalResult gelu(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  OpBuilder &b = e.builder;
  auto constant = [&](double value) { return splatLike(b, e.loc, x, value); };
  mlir::Value inner;
  if (e.node->text("approximate", "none") == "tanh") {
    mlir::Value cube = graph::PowerOp::create(b, e.loc, x.getType(), x, b.getF64FloatAttr(3));
    mlir::Value sum = graph::AddOp::create(b, e.loc, x, graph::MulOp::create(b, e.loc, cube, constant(0.044715)));
    inner = graph::TanhOp::create(b, e.loc, graph::MulOp::create(b, e.loc, sum, constant(0.7978845608028654)));
  } else {
    inner = graph::ErfOp::create(b, e.loc, graph::MulOp::create(b, e.loc, x, constant(0.7071067811865476)));
  }
  mlir::Value half = graph::MulOp::create(b, e.loc, x, constant(0.5));
  e.define(0, graph::MulOp::create(b, e.loc, half, graph::AddOp::create(b, e.loc, inner, constant(1))));
  return success();
}

/// x * sigmoid(alpha x).
LogicalResult swish(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  double alpha = e.node->real("alpha", 1);
  mlir::Value scaled =
      alpha == 1 ? x : graph::MulOp::create(e.builder, e.loc, x, splatLike(e.builder, e.loc, x, alpha)).getResult();
  e.define(0, graph::MulOp::create(e.builder, e.loc, x, graph::SigmoidOp::create(e.builder, e.loc, scaled)));
  return success();
}

LogicalResult relu(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, graph::MaximumOp::create(e.builder, e.loc, x, splatLike(e.builder, e.loc, x, 0)));
  return success();
}

} // namespace

void addElementwiseEmission(llvm::StringMap<EmitFunction> &t) {
  t["Add"] = binary<graph::AddOp>;
  t["Sub"] = binary<graph::SubOp>;
  t["Mul"] = binary<graph::MulOp>;
  t["Div"] = binary<graph::DivOp>;
  t["Pow"] = power;
  t["Max"] = variadic<graph::MaximumOp>;
  t["Min"] = variadic<graph::MinimumOp>;
  t["Sum"] = variadic<graph::AddOp>;
  t["Neg"] = unary<graph::NegOp>;
  t["Abs"] = unary<graph::AbsOp>;
  t["Exp"] = unary<graph::ExpOp>;
  t["Log"] = unary<graph::LogOp>;
  t["Sqrt"] = unary<graph::SqrtOp>;
  t["Reciprocal"] = unary<graph::ReciprocalOp>;
  t["Sigmoid"] = unary<graph::SigmoidOp>;
  t["Tanh"] = unary<graph::TanhOp>;
  t["Erf"] = unary<graph::ErfOp>;
  t["Sin"] = unary<graph::SinOp>;
  t["Cos"] = unary<graph::CosOp>;
  t["Equal"] = [](Emitter &e) { return compareAs(e, "eq"); };
  t["Less"] = [](Emitter &e) { return compareAs(e, "lt"); };
  t["LessOrEqual"] = [](Emitter &e) { return compareAs(e, "le"); };
  t["Greater"] = [](Emitter &e) { return compareAs(e, "gt"); };
  t["GreaterOrEqual"] = [](Emitter &e) { return compareAs(e, "ge"); };
  t["And"] = [](Emitter &e) { return logicAs(e, "and"); };
  t["Or"] = [](Emitter &e) { return logicAs(e, "or"); };
  t["Xor"] = [](Emitter &e) { return logicAs(e, "xor"); };
  t["Not"] = negation;
  t["IsNaN"] = isNaN;
  t["Where"] = where;
  t["Cast"] = cast;
  t["CastLike"] = cast;
  t["Gelu"] = gelu;
  t["Swish"] = swish;
  t["Relu"] = relu;
}

} // namespace ztc::importer
