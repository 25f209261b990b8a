// Elementwise ops: one table from op name to arithmetic.
#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/Core/Fp8.h"
#include <bit>

using namespace mlir;

namespace ztc::codegen {

namespace {
using Operands = ArrayRef<Value>;
/// The value of the op's result, not rounded yet where it is narrow; null where the element type is not supported.
/// Operands have one shape; narrow floats arrive as f32.
using Emission = Value (*)(KernelBuilder &, Operation *, Operands);

bool isF32(Value x) {
  return getElementTypeOrSelf(x.getType()).isF32();
}

/// Functions that kernels compute in f32 alone: ops of math and arith that `ztc-expand-math` makes arithmetic of.
template <typename Function> Value f32Function(KernelBuilder &b, Operation *, Operands x) {
  return isF32(x[0]) ? Function::create(b, x).getResult() : Value();
}

/// With e = exp(-|x|): 1/(1+e) for x >= 0 and e/(1+e) below; never overflows and keeps denormal results. 2.5 ulp; of
/// what is rounded to 16 bits as far as that has use of.
Value sigmoid(KernelBuilder &b, Operation *op, Operands x) {
  if (!isF32(x[0]))
    return {};
  if (isNarrow(getElementTypeOrSelf(op->getResult(0).getType())) || op->hasAttr(graph::kRoundedNarrow))
    return narrowSigmoid(b, x[0]);
  Type type = x[0].getType();
  Value one = b.real(type, 1.0);
  Value e = b.exp(b.negate(b.absolute(x[0])));
  Value numerator = b.select(b.compare(arith::CmpFPredicate::OGE, x[0], b.real(type, 0.0)), one, e);
  return b.div(numerator, b.add(one, e));
}

Value compare(KernelBuilder &b, Operation *op, Operands x) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  auto as = [&](F real, I integer) {
    return isReal(x[0]) ? b.compare(real, x[0], x[1]) : b.compare(integer, x[0], x[1]);
  };
  switch (cast<graph::CompareOp>(op).getPredicate()) {
  case graph::Comparison::Equal:
    return as(F::OEQ, I::eq);
  case graph::Comparison::NotEqual:
    return as(F::UNE, I::ne);
  case graph::Comparison::Less:
    return as(F::OLT, I::slt);
  case graph::Comparison::LessOrEqual:
    return as(F::OLE, I::sle);
  case graph::Comparison::Greater:
    return as(F::OGT, I::sgt);
  case graph::Comparison::GreaterOrEqual:
    return as(F::OGE, I::sge);
  }
  llvm_unreachable("every comparison is above");
}

Value logic(KernelBuilder &b, Operation *op, Operands x) {
  switch (cast<graph::LogicOp>(op).getFunction()) {
  case graph::Logic::And:
    return arith::AndIOp::create(b, x[0], x[1]);
  case graph::Logic::Or:
    return arith::OrIOp::create(b, x[0], x[1]);
  case graph::Logic::Xor:
    return arith::XOrIOp::create(b, x[0], x[1]);
  }
  llvm_unreachable("every function is above");
}

/// The quotient of integers; hardware traps where it is none.
Value divide(KernelBuilder &b, Operation *, Operands x) {
  if (isReal(x[0]))
    return b.div(x[0], x[1]);
  auto is = [&](int64_t value) { return b.compare(arith::CmpIPredicate::eq, x[1], b.integer(x[1].getType(), value)); };
  Value byZero = is(0), byMinusOne = is(-1), one = b.integer(x[1].getType(), 1);
  Value safe = b.select(byZero, one, b.select(byMinusOne, one, x[1]));
  Value quotient = b.select(byMinusOne, b.negate(x[0]), b.div(x[0], safe));
  return b.select(byZero, b.integer(x[0].getType(), 0), quotient);
}

Value remainder(KernelBuilder &b, Operation *op, Operands x) {
  if (isReal(x[0]))
    return f32Function<arith::RemFOp>(b, op, x);
  return b.sub(x[0], b.mul(divide(b, op, x), x[1]));
}

Value round(KernelBuilder &b, Operation *op, Operands x) {
  switch (cast<graph::RoundOp>(op).getMode()) {
  case graph::Rounding::Floor:
    return math::FloorOp::create(b, x[0]);
  case graph::Rounding::Ceil:
    return math::CeilOp::create(b, x[0]);
  case graph::Rounding::Even:
    return math::RoundEvenOp::create(b, x[0]);
  case graph::Rounding::Truncate:
    return math::TruncOp::create(b, x[0]);
  }
  llvm_unreachable("every mode is above");
}

/// The exponent has 64 bits: f32 would be another one.
Value power(KernelBuilder &b, Operation *op, Operands x) {
  if (!isF32(x[0]))
    return {};
  Type type = x[0].getType(), wideType = KernelBuilder::shaped(type, b.getF64Type());
  Value wide = arith::ExtFOp::create(b, wideType, x[0]);
  Value exponent = b.real(wideType, cast<graph::PowerOp>(op).getExponent().convertToDouble());
  return arith::TruncFOp::create(b, type, math::PowFOp::create(b, wide, exponent));
}

Value reciprocal(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? b.div(b.real(x[0].getType(), 1.0), x[0]) : Value();
}

Value root(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? b.sqrt(x[0]) : Value();
}

Value rsqrt(KernelBuilder &b, Operation *, Operands x) {
  return isReal(x[0]) ? math::RsqrtOp::create(b, x[0]).getResult() : Value();
}

Value convertElement(KernelBuilder &b, Value x, Type to) {
  Type from = getElementTypeOrSelf(x.getType()), type = KernelBuilder::shaped(x.getType(), to);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (from == to)
    return x;
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return b.convertReal(x, to);
  if (isa<FloatType>(from)) {
    if (to.isInteger(1))
      return b.compare(arith::CmpFPredicate::UNE, x, b.real(x.getType(), 0.0));
    return arith::FPToSIOp::create(b, type, x);
  }
  if (isa<FloatType>(to)) {
    type = KernelBuilder::shaped(x.getType(), registerType(to));
    Value real = from.isInteger(1) ? arith::UIToFPOp::create(b, type, x).getResult()
                                   : arith::SIToFPOp::create(b, type, x).getResult();
    return b.convertReal(real, to);
  }
  if (to.isInteger(1))
    return b.compare(arith::CmpIPredicate::ne, x, b.integer(x.getType(), 0));
  if (from.isInteger(1))
    return arith::ExtUIOp::create(b, type, x);
  return fromBits < toBits ? arith::ExtSIOp::create(b, type, x).getResult()
                           : arith::TruncIOp::create(b, type, x).getResult();
}

// Integers of 32 bits in the shape of `like`.
Value bits32(KernelBuilder &b, Value like, uint32_t value) {
  return b.integer(KernelBuilder::shaped(like.getType(), b.getI32Type()), static_cast<int32_t>(value));
}
Value shiftRight(KernelBuilder &b, Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, x, b.integer(x.getType(), bits));
}
/// The f32 of which `bits` has the upper half: a bf16 as registers hold it.
Value upperHalf(KernelBuilder &b, Value bits) {
  return b.bitcast(arith::AndIOp::create(b, bits, bits32(b, bits, 0xffff0000)), b.getF32Type());
}

/// The parameter arrives as the f32 whose upper half it is.
Value joinMaster(KernelBuilder &b, Operation *, Operands x) {
  Value bits = b.bitcast(x[0], b.getI32Type());
  Value remainder = arith::ExtSIOp::create(b, bits.getType(), x[1]);
  return b.bitcast(b.add(bits, remainder), b.getF32Type());
}
Value splitParameter(KernelBuilder &b, Value master) {
  Value bits = b.bitcast(master, b.getI32Type());
  return upperHalf(b, b.add(bits, bits32(b, bits, 0x8000)));
}
Value splitRemainder(KernelBuilder &b, Value master) {
  Value bits = b.bitcast(master, b.getI32Type());
  return arith::TruncIOp::create(b, KernelBuilder::shaped(bits.getType(), b.getI16Type()), bits);
}

/// mixBits of runtime/Format/StochasticRounding.h.
Value mixBits(KernelBuilder &b, Value x) {
  auto fold = [&](int64_t bits) { x = arith::XOrIOp::create(b, x, shiftRight(b, x, bits)); };
  fold(16);
  x = b.mul(x, bits32(b, x, 0x7feb352d));
  fold(15);
  x = b.mul(x, bits32(b, x, 0x846ca68b));
  fold(16);
  return x;
}

/// indexBits of roundingKey, runtime/Format/StochasticRounding.h, bit for bit.
Value indexBits(KernelBuilder &b, Value index, Value seed, Value step, uint32_t stream) {
  Type i32 = KernelBuilder::shaped(index.getType(), b.getI32Type());
  auto exclusiveOr = [&](Value p, Value q) -> Value { return arith::XOrIOp::create(b, p, q); };
  seed = b.bitcast(seed, b.getI32Type()), step = b.bitcast(step, b.getI32Type());
  Value key = mixBits(b, exclusiveOr(seed, mixBits(b, b.add(step, bits32(b, step, 0x9e3779b9u * (stream + 1))))));
  Value low = arith::TruncIOp::create(b, i32, index);
  Value high = arith::TruncIOp::create(b, i32, shiftRight(b, index, 32));
  Value place = exclusiveOr(low, b.mul(high, bits32(b, high, 0x85ebca6b)));
  return mixBits(b, b.add(place, key));
}
/// maskBits of the same file.
Value randomBits(KernelBuilder &b, Operation *op, Operands x) {
  auto bits = cast<graph::RandomBitsOp>(op);
  Value row = b.add(x[2], x[0]);
  Value columns = b.integer(row.getType(), int64_t(bits.getColumns()));
  Value place = b.add(b.mul(row, columns), x[1]);
  return shiftRight(b, indexBits(b, place, x[3], x[4], static_cast<uint32_t>(bits.getStream())), 1);
}

/// roundStochastically of the same file.
Value stochasticRound(KernelBuilder &b, Operation *op, Operands x) {
  auto stream = static_cast<uint32_t>(cast<graph::StochasticRoundOp>(op).getStream());
  Value random = shiftRight(b, indexBits(b, x[1], x[2], x[3], stream), 16);
  Value bits = b.bitcast(x[0], b.getI32Type());
  Value magnitude = arith::AndIOp::create(b, bits, bits32(b, bits, 0x7fffffff)), infinity = bits32(b, bits, 0x7f800000);
  Value quiet = arith::OrIOp::create(b, bits, bits32(b, bits, 0x400000));
  Value special = b.select(b.compare(arith::CmpIPredicate::ugt, magnitude, infinity), quiet, bits);
  Value chosen = b.select(b.compare(arith::CmpIPredicate::uge, magnitude, infinity), special, b.add(bits, random));
  return upperHalf(b, chosen);
}

/// toFp8 of runtime/Core/Fp8.h, in plain arithmetic.
Value fp8Code(KernelBuilder &b, Value number, Fp8Format format) {
  const bool isE4m3 = format == Fp8Format::E4m3;
  const int64_t dropped = isE4m3 ? 20 : 21;
  const uint32_t rebias = (isE4m3 ? 127u - 7u : 127u - 15u) << 23;
  const float anchor = isE4m3 ? 0x1p14f : 0x1p7f, smallestNormal = isE4m3 ? 0x1p-6f : 0x1p-14f;
  Value bits = b.bitcast(number, b.getI32Type());
  auto constant = [&](uint32_t value) { return bits32(b, bits, value); };
  auto bitsOf = [&](float value) { return constant(std::bit_cast<uint32_t>(value)); };
  Value magnitude = arith::AndIOp::create(b, bits, constant(0x7fffffff));
  Value limited = arith::MinUIOp::create(b, magnitude, bitsOf(largestFp8(format)));
  Value odd = arith::AndIOp::create(b, shiftRight(b, limited, dropped), constant(1));
  Value half = constant((1u << (dropped - 1)) - 1 - rebias);
  Value rounded = shiftRight(b, b.add(b.add(limited, half), odd), dropped);
  Value sum = b.add(b.bitcast(limited, b.getF32Type()), b.real(number.getType(), anchor));
  Value small = b.sub(b.bitcast(sum, b.getI32Type()), bitsOf(anchor));
  Value code = b.select(b.compare(arith::CmpIPredicate::ult, limited, bitsOf(smallestNormal)), small, rounded);
  code = b.select(b.compare(arith::CmpIPredicate::ugt, magnitude, constant(0x7f800000)), constant(0x7f), code);
  code = arith::OrIOp::create(b, code, arith::AndIOp::create(b, shiftRight(b, bits, 24), constant(0x80)));
  return arith::TruncIOp::create(b, KernelBuilder::shaped(number.getType(), b.getI8Type()), code);
}

/// The same by a GPU's instruction for two numbers.
Value fp8CodesOnGpu(KernelBuilder &b, Value numbers, Type format) {
  const int64_t lanes = lanesOf(numbers.getType());
  if (lanes == 1)
    return arith::TruncIOp::create(b, b.getI8Type(), b.fp8Pair(numbers, numbers, format));
  auto lane = [&](int64_t index) -> Value { return vector::ExtractOp::create(b, numbers, index); };
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < lanes; i += 2)
    pairs.push_back(b.fp8Pair(lane(i), lane(i + 1), format));
  Value words = vector::FromElementsOp::create(b, VectorType::get({lanes / 2}, b.getI16Type()), pairs);
  return vector::BitCastOp::create(b, VectorType::get({lanes}, b.getI8Type()), words);
}

Value fp8Codes(KernelBuilder &b, Operation *op, Operands x) {
  const Type format = getElementTypeOrSelf(op->getResult(0).getType());
  Value product = b.mul(x[0], x[1]);
  if (b.forGpu && (lanesOf(product.getType()) == 1 || lanesOf(product.getType()) % 2 == 0))
    return fp8CodesOnGpu(b, product, format);
  return fp8Code(b, product, isa<Float8E4M3FNType>(format) ? Fp8Format::E4m3 : Fp8Format::E5m2);
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
      {"graph.div", divide},
      {"graph.remainder", remainder},
      {"graph.tensor_power", f32Function<math::PowFOp>},
      {"graph.round", round},
      {"graph.maximum", [](KernelBuilder &b, Operation *, Operands x) { return b.maximum(x[0], x[1]); }},
      {"graph.minimum", [](KernelBuilder &b, Operation *, Operands x) { return b.minimum(x[0], x[1]); }},
      {"graph.neg", [](KernelBuilder &b, Operation *, Operands x) { return b.negate(x[0]); }},
      {"graph.abs", [](KernelBuilder &b, Operation *, Operands x) { return b.absolute(x[0]); }},
      {"graph.select", [](KernelBuilder &b, Operation *, Operands x) { return b.select(x[0], x[1], x[2]); }},
      {"graph.exp", f32Function<math::ExpOp>},
      {"graph.log", f32Function<math::LogOp>},
      {"graph.tanh", f32Function<math::TanhOp>},
      {"graph.sigmoid", sigmoid},
      {"graph.erf", f32Function<math::ErfOp>},
      {"graph.sin", f32Function<math::SinOp>},
      {"graph.cos", f32Function<math::CosOp>},
      {"graph.atan", f32Function<math::AtanOp>},
      {"graph.expm1", f32Function<math::ExpM1Op>},
      {"graph.log1p", f32Function<math::Log1pOp>},
      {"graph.sqrt", root},
      {"graph.rsqrt", rsqrt},
      {"graph.reciprocal", reciprocal},
      {"graph.power", power},
      {"graph.compare", compare},
      {"graph.logic", logic},
      {"graph.join_master", joinMaster},
      {"graph.split_master", [](KernelBuilder &b, Operation *, Operands x) { return splitParameter(b, x[0]); }},
      {"graph.stochastic_round", stochasticRound},
      {"graph.random_bits", randomBits},
      {"graph.fp8_codes", fp8Codes},
  };
  for (const Entry &entry : table)
    if (entry.name == name)
      return entry.emission;
  return nullptr;
}
} // namespace

// An op whose operands are equal in all lanes stays a scalar, at the depth of its operands.
Element KernelEmitter::emitElementwise(OpResult value, ArrayRef<IndexExpr> access) {
  Operation *op = value.getOwner();
  bool isCast = isa<graph::CastOp>(op);
  Emission emission = emissionOf(op->getName().getStringRef());
  if (isa<graph::SplitMasterOp>(op) && value.getResultNumber() == 1)
    emission = [](KernelBuilder &b, Operation *, Operands x) { return splitRemainder(b, x[0]); };
  Type stored = element(value.getType());
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
  Value result = emission(b, op, operands);
  if (!result)
    return fail(op, "has no kernel for this element type");
  // A narrow float computes in f32 and is rounded as if it had been stored; some results are rounded already.
  bool isExact = isa<graph::SelectOp, graph::NegOp, graph::AbsOp, graph::MaximumOp, graph::MinimumOp,
                     graph::SplitMasterOp, graph::StochasticRoundOp>(op);
  return {isNarrow(stored) && !isExact ? b.convertReal(result, stored) : result, level};
}

} // namespace ztc::codegen
