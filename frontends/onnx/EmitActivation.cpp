// Emission of activations and of elementary functions that graph has no op for. Arguments of exp, log and sqrt are kept
// in range on both branches of a selection: a derivative goes through both, and zero times infinity is not a number.
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/Formulas.h"
#include <cmath>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// The emission of a function of one operand.
template <Expr (*function)(Emitter &, const Expr &)> LogicalResult of(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  e.define(0, function(e, e.expr(x)).value());
  return success();
}

template <typename OpTy> Expr emit(const Expr &a, const Expr &b) {
  return a.with(OpTy::create(a.builder(), a.loc(), a.value(), b.value()));
}
template <typename OpTy> Expr emit(const Expr &x) {
  return x.with(OpTy::create(x.builder(), x.loc(), x.value()));
}
Expr tanhOf(const Expr &x) {
  return x.with(graph::TanhOp::create(x.builder(), x.loc(), x.value()));
}

} // namespace

Expr larger(const Expr &a, const Expr &b) {
  return emit<graph::MaximumOp>(a, b);
}

Expr smaller(const Expr &a, const Expr &b) {
  return emit<graph::MinimumOp>(a, b);
}

Expr geluByTanh(const Expr &x) {
  return x * 0.5 * (tanhOf((x + power(x, 3) * 0.044715) * 0.7978845608028654) + 1.0);
}

namespace {

Expr absoluteOf(const Expr &x) {
  return x.with(graph::AbsOp::create(x.builder(), x.loc(), x.value()));
}
/// x where it is negative, else 0; the derivative at 0 is that of the positive side.
Expr negativePart(const Expr &x) {
  return select(x < zeroLike(x), x, zeroLike(x));
}
/// log(1 + exp(x)).
Expr softplusOf(const Expr &x) {
  return larger(x, zeroLike(x)) + emit<graph::Log1pOp>(exp(-absoluteOf(x)));
}

/// 0.5 x (1 + erf(x / sqrt 2)), or its tanh form.
Expr gelu(Emitter &e, const Expr &x) {
  if (e.node->text("approximate", "none") == "tanh")
    return geluByTanh(x);
  Expr scaled = x * 0.7071067811865476;
  return x * 0.5 * (x.with(graph::ErfOp::create(e.builder, e.loc, scaled.value())) + 1.0);
}

/// x * sigmoid(alpha x).
Expr swish(Emitter &e, const Expr &x) {
  double alpha = e.node->real("alpha", 1);
  return x * sigmoid(alpha == 1 ? x : x * alpha);
}

/// The derivative at 0 is 0, as PyTorch has it.
Expr relu(Emitter &, const Expr &x) {
  return larger(zeroLike(x), x);
}

Expr leakyRelu(Emitter &e, const Expr &x) {
  return select(x > zeroLike(x), x, x * e.node->real("alpha", 0.01));
}

Expr thresholdedRelu(Emitter &e, const Expr &x) {
  return select(x > constantLike(x, e.node->real("alpha", 1)), x, zeroLike(x));
}

Expr elu(Emitter &e, const Expr &x) {
  return select(x < zeroLike(x), emit<graph::Expm1Op>(negativePart(x)) * e.node->real("alpha", 1), x);
}

Expr selu(Emitter &e, const Expr &x) {
  double alpha = e.node->real("alpha", 1.67326319217681884765625),
         gamma = e.node->real("gamma", 1.05070102214813232421875);
  return select(x > zeroLike(x), x, emit<graph::Expm1Op>(negativePart(x)) * alpha) * gamma;
}

Expr celu(Emitter &e, const Expr &x) {
  double alpha = e.node->real("alpha", 1);
  return larger(x, zeroLike(x)) + emit<graph::Expm1Op>(negativePart(x) / alpha) * alpha;
}

Expr clamped(const Expr &x, double low, double high) {
  return smaller(larger(x, constantLike(x, low)), constantLike(x, high));
}

Expr hardSigmoid(Emitter &e, const Expr &x) {
  return clamped(x * e.node->real("alpha", 0.2) + e.node->real("beta", 0.5), 0, 1);
}

Expr hardSwish(Emitter &, const Expr &x) {
  return x * clamped(x / 6.0 + 0.5, 0, 1);
}

Expr softplus(Emitter &, const Expr &x) {
  return softplusOf(x);
}

Expr softsign(Emitter &, const Expr &x) {
  return x / (absoluteOf(x) + 1.0);
}

Expr mish(Emitter &, const Expr &x) {
  return x * tanhOf(softplusOf(x));
}

Expr shrink(Emitter &e, const Expr &x) {
  double lambda = e.node->real("lambd", 0.5), bias = e.node->real("bias", 0);
  return select(x < constantLike(x, -lambda), x + bias, select(x > constantLike(x, lambda), x - bias, zeroLike(x)));
}

Expr arctangent(const Expr &x) {
  return emit<graph::AtanOp>(x);
}

/// 2 atan(x / (1 + sqrt(1 - x^2))): finite at +-1 too.
Expr arcsine(const Expr &x) {
  return arctangent(x / (sqrt(1.0 - x * x) + 1.0)) * 2.0;
}

Expr atan(Emitter &, const Expr &x) {
  return arctangent(x);
}
Expr asin(Emitter &, const Expr &x) {
  return arcsine(x);
}
Expr acos(Emitter &, const Expr &x) {
  return M_PI_2 - arcsine(x);
}
Expr tan(Emitter &, const Expr &x) {
  return sin(x) / cos(x);
}
/// (t + t / (t + 1)) / 2 of t = exp(x) - 1 keeps its digits around 0.
Expr sinh(Emitter &, const Expr &x) {
  Expr t = emit<graph::Expm1Op>(x);
  return (t + t / (t + 1.0)) * 0.5;
}
Expr cosh(Emitter &, const Expr &x) {
  return (exp(x) + exp(-x)) * 0.5;
}
/// log(|x| + sqrt(x^2 + 1)) without the loss of digits around 0; the sign is put back.
Expr asinh(Emitter &, const Expr &x) {
  Expr size = absoluteOf(x), square = x * x;
  Expr y = emit<graph::Log1pOp>(size + square / (sqrt(square + 1.0) + 1.0));
  return select(x < zeroLike(x), -y, y);
}
Expr acosh(Emitter &, const Expr &x) {
  return log(x + sqrt(x * x - 1.0));
}
Expr atanh(Emitter &, const Expr &x) {
  return (emit<graph::Log1pOp>(x) - emit<graph::Log1pOp>(-x)) * 0.5;
}

Expr whole(const Expr &x, graph::Rounding mode) {
  return x.with(graph::RoundOp::create(x.builder(), x.loc(), x.value(), mode));
}
Expr floor(Emitter &, const Expr &x) {
  return whole(x, graph::Rounding::Floor);
}
Expr ceil(Emitter &, const Expr &x) {
  return whole(x, graph::Rounding::Ceil);
}
Expr round(Emitter &, const Expr &x) {
  return whole(x, graph::Rounding::Even);
}
/// Of NaN, NaN.
Expr sign(Emitter &, const Expr &x) {
  Expr zero = zeroLike(x), one = constantLike(x, 1);
  return select(x > zero, one, select(x < zero, constantLike(x, -1), x));
}

/// Bounds are attributes up to opset 6, then inputs.
LogicalResult clip(Emitter &e) {
  mlir::Value x = e.operand(0);
  if (!x)
    return failure();
  Expr y = e.expr(x);
  for (unsigned i : {1u, 2u}) {
    bool isLow = i == 1;
    mlir::Value bound;
    if (e.node->hasInput(i)) {
      bound = e.operand(i, shapeOf(x));
      if (!bound)
        return failure();
    } else if (const char *name = isLow ? "min" : "max"; e.node->has(name)) {
      bound = splatLike(e.builder, e.loc, x, e.node->real(name, 0));
    } else {
      continue;
    }
    Expr limit = e.expr(bound);
    y = isLow ? larger(y, limit) : smaller(y, limit);
  }
  e.define(0, y.value());
  return success();
}

LogicalResult prelu(Emitter &e) {
  mlir::Value x = e.operand(0), slope = x ? e.operand(1, e.outputShape()) : nullptr;
  if (!slope)
    return failure();
  Expr v = e.expr(x);
  e.define(0, select(v > zeroLike(v), v, v * e.expr(slope)).value());
  return success();
}

} // namespace

void addActivationEmission(llvm::StringMap<EmitFunction> &t) {
  t["Gelu"] = of<gelu>;
  t["Swish"] = of<swish>;
  t["Relu"] = of<relu>;
  t["LeakyRelu"] = of<leakyRelu>;
  t["ThresholdedRelu"] = of<thresholdedRelu>;
  t["Elu"] = of<elu>;
  t["Selu"] = of<selu>;
  t["Celu"] = of<celu>;
  t["HardSigmoid"] = of<hardSigmoid>;
  t["HardSwish"] = of<hardSwish>;
  t["Softplus"] = of<softplus>;
  t["Softsign"] = of<softsign>;
  t["Mish"] = of<mish>;
  t["Shrink"] = of<shrink>;
  t["Atan"] = of<atan>;
  t["Asin"] = of<asin>;
  t["Acos"] = of<acos>;
  t["Tan"] = of<tan>;
  t["Sinh"] = of<sinh>;
  t["Cosh"] = of<cosh>;
  t["Asinh"] = of<asinh>;
  t["Acosh"] = of<acosh>;
  t["Atanh"] = of<atanh>;
  t["Floor"] = of<floor>;
  t["Ceil"] = of<ceil>;
  t["Round"] = of<round>;
  t["Sign"] = of<sign>;
  t["Clip"] = clip;
  t["PRelu"] = prelu;
}

} // namespace ztc::importer
