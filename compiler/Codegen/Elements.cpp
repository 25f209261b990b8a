// Elementwise ops: one table from op name to arithmetic.
#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc::codegen {

namespace {
using Operands = ArrayRef<Value>;
/// Null where the element type is not supported. Operands have one shape; narrow floats arrive as f32.
using Emission = Value (*)(KernelBuilder &, Operation *, Operands);

bool isReal(Value x) {
  return isa<FloatType>(getElementTypeOrSelf(x.getType()));
}

/// Functions that exist for f32 alone.
template <Value (*expand)(KernelBuilder &, Value)> Value f32Function(KernelBuilder &b, Operation *, Operands x) {
  return getElementTypeOrSelf(x[0].getType()).isF32() ? expand(b, x[0]) : Value();
}

Value compare(KernelBuilder &b, Operation *op, Operands x) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  struct Predicate {
    StringRef name;
    F real;
    I integer;
  };
  static constexpr Predicate predicates[] = {{"eq", F::OEQ, I::eq},  {"ne", F::UNE, I::ne},  {"lt", F::OLT, I::slt},
                                             {"le", F::OLE, I::sle}, {"gt", F::OGT, I::sgt}, {"ge", F::OGE, I::sge}};
  StringRef wanted = cast<graph::CompareOp>(op).getPredicate();
  for (const Predicate &p : predicates)
    if (p.name == wanted)
      return isReal(x[0]) ? b.compare(p.real, x[0], x[1]) : b.compare(p.integer, x[0], x[1]);
  return {};
}

Value logic(KernelBuilder &b, Operation *op, Operands x) {
  StringRef function = cast<graph::LogicOp>(op).getFunction();
  if (function == "and")
    return arith::AndIOp::create(b, x[0], x[1]);
  if (function == "or")
    return arith::OrIOp::create(b, x[0], x[1]);
  return arith::XOrIOp::create(b, x[0], x[1]);
}

Value power(KernelBuilder &b, Operation *op, Operands x) {
  if (!getElementTypeOrSelf(x[0].getType()).isF32())
    return {};
  return expandPower(b, x[0], cast<graph::PowerOp>(op).getExponent().convertToDouble());
}

Value reciprocal(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? b.div(b.real(x[0].getType(), 1.0), x[0]) : Value();
}

Value root(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? b.sqrt(x[0]) : Value();
}

Value rsqrt(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? expandRsqrt(b, x[0]) : Value();
}

/// Operands keep their stored type here.
Value convertElement(KernelBuilder &b, Value x, Type to) {
  Type from = getElementTypeOrSelf(x.getType()), type = KernelBuilder::shaped(x.getType(), to);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (from == to)
    return x;
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    if (fromBits == toBits) { // bf16 and f16: by way of f32, which holds both
      x = arith::ExtFOp::create(b, KernelBuilder::shaped(x.getType(), b.getF32Type()), x);
      fromBits = 32;
    }
    return fromBits < toBits ? arith::ExtFOp::create(b, type, x).getResult()
                             : arith::TruncFOp::create(b, type, x).getResult();
  }
  if (isa<FloatType>(from)) {
    if (to.isInteger(1))
      return b.compare(arith::CmpFPredicate::UNE, x, b.real(x.getType(), 0.0));
    return arith::FPToSIOp::create(b, type, x);
  }
  if (isa<FloatType>(to))
    return from.isInteger(1) ? arith::UIToFPOp::create(b, type, x).getResult()
                             : arith::SIToFPOp::create(b, type, x).getResult();
  if (to.isInteger(1))
    return b.compare(arith::CmpIPredicate::ne, x, b.integer(x.getType(), 0));
  if (from.isInteger(1))
    return arith::ExtUIOp::create(b, type, x);
  return fromBits < toBits ? arith::ExtSIOp::create(b, type, x).getResult()
                           : arith::TruncIOp::create(b, type, x).getResult();
}

Emission emissionOf(StringRef name) {
  struct Entry {
    StringRef name;
    Emission emission;
  };
  static const Entry table[] = {
      {"graph.add", [](KernelBuilder &b, Operation *, Operands x) { return b.add(x[0], x[1]); }},
      {"graph.accumulate", [](KernelBuilder &b, Operation *, Operands x) { return b.add(x[0], x[1]); }},
      {"graph.sub", [](KernelBuilder &b, Operation *, Operands x) { return b.sub(x[0], x[1]); }},
      {"graph.mul", [](KernelBuilder &b, Operation *, Operands x) { return b.mul(x[0], x[1]); }},
      {"graph.div", [](KernelBuilder &b, Operation *, Operands x) { return b.div(x[0], x[1]); }},
      {"graph.maximum", [](KernelBuilder &b, Operation *, Operands x) { return b.maximum(x[0], x[1]); }},
      {"graph.minimum", [](KernelBuilder &b, Operation *, Operands x) { return b.minimum(x[0], x[1]); }},
      {"graph.neg", [](KernelBuilder &b, Operation *, Operands x) { return b.negate(x[0]); }},
      {"graph.abs", [](KernelBuilder &b, Operation *, Operands x) { return b.absolute(x[0]); }},
      {"graph.select", [](KernelBuilder &b, Operation *, Operands x) { return b.select(x[0], x[1], x[2]); }},
      {"graph.exp", f32Function<expandExp>},
      {"graph.log", f32Function<expandLog>},
      {"graph.tanh", f32Function<expandTanh>},
      {"graph.sigmoid", f32Function<expandSigmoid>},
      {"graph.erf", f32Function<expandErf>},
      {"graph.sin", f32Function<expandSin>},
      {"graph.cos", f32Function<expandCos>},
      {"graph.sqrt", root},
      {"graph.rsqrt", rsqrt},
      {"graph.reciprocal", reciprocal},
      {"graph.power", power},
      {"graph.compare", compare},
      {"graph.logic", logic},
  };
  for (const Entry &entry : table)
    if (entry.name == name)
      return entry.emission;
  return nullptr;
}

bool isNarrow(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
}
} // namespace

// An op whose operands are equal in all lanes stays a scalar, at the depth of its operands.
Element KernelEmitter::emitElementwise(Operation *op, ArrayRef<IndexExpr> access) {
  bool isCast = isa<graph::CastOp>(op);
  Emission emission = emissionOf(op->getName().getStringRef());
  Type stored = element(op->getResult(0).getType());
  if ((!emission && !isCast) || !stored)
    return fail(op, "is not an op that kernels are made of");
  SmallVector<Element> elements;
  int64_t lanes = 1;
  unsigned level = 0;
  for (Value operand : op->getOperands()) {
    elements.push_back(emit(operand, access));
    if (!elements.back())
      return {};
    lanes = std::max(lanes, lanesOf(elements.back().value.getType()));
    level = std::max(level, elements.back().level);
  }
  SmallVector<Value> operands;
  for (const Element &e : elements)
    operands.push_back(widen(e.value, lanes, level));
  KernelBuilder &b = at(level);
  if (isCast)
    return {convertElement(b, operands[0], stored), level};
  // A narrow float computes in f32 and is rounded as if it had been stored; what only moves it has nothing to round.
  for (Value &operand : operands)
    if (isNarrow(getElementTypeOrSelf(operand.getType())))
      operand = convertElement(b, operand, b.getF32Type());
  Value result = emission(b, op, operands);
  if (!result)
    return fail(op, "has no kernel for this element type");
  return {isNarrow(stored) ? convertElement(b, result, stored) : result, level};
}

} // namespace ztc::codegen
