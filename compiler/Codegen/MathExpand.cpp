#include "compiler/Codegen/MathExpand.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ztc::codegen {

using FP = arith::CmpFPredicate;
static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Horner's scheme with fma; coefficients from the constant term upwards.
static Value polynomial(KernelBuilder &b, Value x, ArrayRef<double> coefficients) {
  Value sum = b.real(x.getType(), coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back()))
    sum = b.fma(sum, x, b.real(x.getType(), c));
  return sum;
}

/// x where it is NaN, else y.
static Value keepNan(KernelBuilder &b, Value x, Value y) {
  return b.select(b.compare(FP::UNO, x, x), x, y);
}

/// x limited to [low, high]; NaN becomes a number.
static Value clamp(KernelBuilder &b, Value x, double low, double high) {
  Value l = b.real(x.getType(), low), h = b.real(x.getType(), high);
  x = b.select(b.compare(FP::OLT, x, h), x, h);
  return b.select(b.compare(FP::OGT, x, l), x, l);
}

/// 2^n for whole n in the normal range, from the bits of the exponent field. `n` is an i32.
static Value powerOfTwo(KernelBuilder &b, Value n) {
  Value bits = arith::ShLIOp::create(b, b.add(n, b.integer(n.getType(), 127)), b.integer(n.getType(), 23));
  return b.bitcast(bits, b.getF32Type());
}

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. exp(r) = 1 + r + r^2 P(r), P minimax (relative 3.2e-9).
// Adding 1.5 * 2^23 rounds to a whole number that then stands in the low bits.
static Value expandExp(KernelBuilder &b, Value x) {
  Type type = x.getType(), integers = KernelBuilder::shaped(type, b.getI32Type());
  Value limited = clamp(b, x, -104.0, 89.0);
  Value magic = b.real(type, 12582912.0);
  Value shifted = b.fma(limited, b.real(type, 0x1.715476p0), magic);
  Value whole = b.sub(shifted, magic);
  Value r = b.fma(whole, b.real(type, -0x1.62e430p-1), limited);
  r = b.fma(whole, b.real(type, 0x1.05c610p-29), r);
  Value p = polynomial(b, r, {1.0, 1.0, 0.5, 0x1.55548cp-3, 0x1.55545cp-5, 0x1.123d12p-7, 0x1.6db68ep-10});
  Value n = b.sub(b.bitcast(shifted, b.getI32Type()), b.integer(integers, 0x4b400000));
  // In two factors, so that only the last product rounds where the result is denormal, and overflows to infinity.
  Value half = arith::ShRSIOp::create(b, n, b.integer(integers, 1));
  Value y = b.mul(b.mul(p, powerOfTwo(b, half)), powerOfTwo(b, b.sub(n, half)));
  return keepNan(b, x, y);
}

// 2^(x log2 e) = 2^n 2^r, n = round(x log2 e). Adding 1.5 * 2^23 + 127 leaves 2^n's exponent field in the low bits;
// from -88.03 on it is at least 0, and 0 is that of the number 0.
Value narrowExp(KernelBuilder &b, Value x) {
  Type type = x.getType(), integers = KernelBuilder::shaped(type, b.getI32Type());
  Value limited = b.maximum(x, b.real(type, -0x1.6014c8p6));
  Value magic = b.real(type, 12582912.0 + 127.0), log2e = b.real(type, 0x1.715476p0);
  Value shifted = b.fma(limited, log2e, magic);
  Value r = b.fma(limited, log2e, b.sub(magic, shifted));
  Value power = arith::ShLIOp::create(b, b.bitcast(shifted, b.getI32Type()), b.integer(integers, 23));
  return b.mul(polynomial(b, r, kNarrowExp), b.bitcast(power, b.getF32Type()));
}

// With e = exp(-|x|): 1/(1+e) for x >= 0 and e/(1+e) below.
Value narrowSigmoid(KernelBuilder &b, Value x) {
  Type type = x.getType();
  Value one = b.real(type, 1.0);
  Value e = narrowExp(b, b.negate(b.absolute(x)));
  Value r = polynomial(b, e, kNarrowReciprocal);
  Value rest = b.fma(b.negate(b.add(one, e)), r, one);
  r = b.fma(r, rest, r);
  return b.mul(r, b.select(b.compare(FP::OGE, x, b.real(type, 0.0)), one, e));
}

/// log of positive finite doubles: x = 2^k m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m-1)/(m+1).
static Value logOfDouble(KernelBuilder &b, Value x) {
  Type type = x.getType(), integers = KernelBuilder::shaped(type, b.getI64Type());
  Value bits = b.bitcast(x, b.getI64Type());
  // Taking the bits of sqrt(1/2) away makes the exponent field change at sqrt(2) instead of at 2.
  Value offset = b.integer(integers, 0x3fe6a09e667f3bcd);
  Value shifted = b.sub(bits, offset);
  Value k = arith::ShRSIOp::create(b, shifted, b.integer(integers, 52));
  Value fraction = arith::AndIOp::create(b, shifted, b.integer(integers, 0x000fffffffffffff));
  Value m = b.bitcast(b.add(fraction, offset), b.getF64Type());
  Value one = b.real(type, 1.0);
  Value s = b.div(b.sub(m, one), b.add(m, one));
  Value z = b.mul(s, s);
  SmallVector<double> series;
  for (int i = 0; i < 10; ++i)
    series.push_back(2.0 / (2 * i + 1));
  // k fits 12 bits: its double is exact by way of i32, which has an instruction where i64 has none before AVX-512.
  Value k32 = arith::TruncIOp::create(b, KernelBuilder::shaped(type, b.getI32Type()), k);
  Value exponent = arith::SIToFPOp::create(b, type, k32);
  return b.fma(exponent, b.real(type, 0.69314718055994530942), b.mul(s, polynomial(b, z, series)));
}

/// exp of doubles in [-700, 700]: 2^n times the Taylor series.
static Value expOfDouble(KernelBuilder &b, Value x) {
  Type type = x.getType(), integers = KernelBuilder::shaped(type, b.getI64Type());
  Value magic = b.real(type, 6755399441055744.0);
  Value shifted = b.fma(x, b.real(type, 1.4426950408889634), magic);
  Value whole = b.sub(shifted, magic);
  Value r = b.fma(whole, b.real(type, -0.69314718055994530942), x);
  SmallVector<double> series{1.0};
  for (int i = 1; i < 13; ++i)
    series.push_back(series.back() / i);
  Value n = b.sub(b.bitcast(shifted, b.getI64Type()), b.integer(integers, 0x4338000000000000));
  Value scale = arith::ShLIOp::create(b, b.add(n, b.integer(integers, 1023)), b.integer(integers, 52));
  return b.mul(polynomial(b, r, series), b.bitcast(scale, b.getF64Type()));
}

static Value widen(KernelBuilder &b, Value x) {
  return arith::ExtFOp::create(b, KernelBuilder::shaped(x.getType(), b.getF64Type()), x);
}
static Value narrow(KernelBuilder &b, Value x) {
  return arith::TruncFOp::create(b, KernelBuilder::shaped(x.getType(), b.getF32Type()), x);
}

// In double precision, where every f32 is normal: logarithms stand in rows and scalars only, never in an inner product.
static Value expandLog(KernelBuilder &b, Value x) {
  Type type = x.getType();
  Value zero = b.real(type, 0.0), infinity = b.real(type, kInfinity);
  Value y = narrow(b, logOfDouble(b, widen(b, x)));
  y = b.select(b.compare(FP::OEQ, x, infinity), infinity, y);
  y = b.select(b.compare(FP::OEQ, x, zero), b.real(type, -kInfinity), y);
  y = b.select(b.compare(FP::OLT, x, zero), b.real(type, std::numeric_limits<double>::quiet_NaN()), y);
  return keepNan(b, x, y);
}

// |x| < 0.625: x + x^3 P(x^2), else 1 - 2/(exp(2|x|) + 1); both have the sign put back.
static Value expandTanh(KernelBuilder &b, Value x) {
  Type type = x.getType();
  Value a = b.absolute(x), z = b.mul(x, x), one = b.real(type, 1.0);
  Value p =
      polynomial(b, z, {-0x1.555554p-2, 0x1.111064p-3, -0x1.b9edf8p-5, 0x1.638384p-6, -0x1.0bc854p-7, 0x1.182af2p-9});
  Value small = b.fma(b.mul(x, z), p, x);
  Value e = expandExp(b, b.add(a, a));
  Value large = b.sub(one, b.div(b.real(type, 2.0), b.add(e, one)));
  large = b.select(b.compare(FP::OLT, x, b.real(type, 0.0)), b.negate(large), large);
  Value y = b.select(b.compare(FP::OLT, a, b.real(type, 0.625)), small, large);
  y = b.select(b.compare(FP::OEQ, x, b.real(type, 0.0)), x, y); // keeps -0
  return keepNan(b, x, y);
}

// |x| < 0.925: x + x P(x^2); else 1 - exp(-t + t Q(t)), t = |x|, both minimax in the error of the result.
static Value expandErf(KernelBuilder &b, Value x) {
  Type type = x.getType();
  Value z = b.mul(x, x);
  Value p = polynomial(
      b, z,
      {0x1.06eba8p-3, -0x1.812744p-2, 0x1.ce2e1cp-4, -0x1.b80ff2p-6, 0x1.54d42ap-8, -0x1.aaa2d6p-11, 0x1.5e062cp-14});
  Value small = b.fma(x, p, x);
  Value a = b.absolute(x);
  Value t = clamp(b, a, 0.0, 4.0);
  Value q = polynomial(
      b, t,
      {-0x1.077acap-3, -0x1.453088p-1, -0x1.b34100p-4, 0x1.85b308p-6, -0x1.dee834p-9, 0x1.557930p-12, -0x1.82a140p-17});
  Value large = b.sub(b.real(type, 1.0), expandExp(b, b.fma(t, q, b.negate(t))));
  large = b.select(b.compare(FP::OLT, x, b.real(type, 0.0)), b.negate(large), large);
  Value y = b.select(b.compare(FP::OLT, a, b.real(type, 0.925)), small, large);
  return keepNan(b, x, y);
}

/// c0 x + c1 x^2 + ... where |x| < 1e-4, else `y`: what a difference with 1 would cancel.
static Value seriesAtZero(KernelBuilder &b, Value x, ArrayRef<double> coefficients, Value y) {
  Value small = b.mul(x, polynomial(b, x, coefficients));
  return b.select(b.compare(FP::OLT, b.absolute(x), b.real(x.getType(), 1e-4)), small, y);
}

static Value expandExpm1(KernelBuilder &b, Value x) {
  Value wide = widen(b, clamp(b, x, -104.0, 90.0));
  Value y = b.sub(expOfDouble(b, wide), b.real(wide.getType(), 1.0));
  y = narrow(b, seriesAtZero(b, wide, {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24}, y));
  y = b.select(b.compare(FP::OEQ, x, b.real(x.getType(), 0.0)), x, y); // keeps -0
  return keepNan(b, x, y);
}

static Value expandLog1p(KernelBuilder &b, Value x) {
  Type type = x.getType();
  Value wide = widen(b, x), minusOne = b.real(type, -1.0), infinity = b.real(type, kInfinity);
  Value y = logOfDouble(b, b.add(wide, b.real(wide.getType(), 1.0)));
  y = narrow(b, seriesAtZero(b, wide, {1.0, -1.0 / 2, 1.0 / 3, -1.0 / 4}, y));
  y = b.select(b.compare(FP::OEQ, x, b.real(type, 0.0)), x, y); // keeps -0
  y = b.select(b.compare(FP::OEQ, x, infinity), infinity, y);
  y = b.select(b.compare(FP::OEQ, x, minusOne), b.real(type, -kInfinity), y);
  y = b.select(b.compare(FP::OLT, x, minusOne), b.real(type, std::numeric_limits<double>::quiet_NaN()), y);
  return keepNan(b, x, y);
}

// In double precision: t = min(|x|, 1/|x|), and (t-1)/(t+1) beyond tan(pi/8), leave |s| <= tan(pi/8) to the series.
static Value expandAtan(KernelBuilder &b, Value x) {
  Value wide = widen(b, b.absolute(x));
  Type type = wide.getType();
  Value one = b.real(type, 1.0), inverted = b.compare(FP::OGT, wide, one);
  Value t = b.select(inverted, b.div(one, wide), wide);
  Value turned = b.compare(FP::OGT, t, b.real(type, 0.41421356237309503));
  Value s = b.select(turned, b.div(b.sub(t, one), b.add(t, one)), t);
  SmallVector<double> series;
  for (int i = 0; i < 14; ++i)
    series.push_back((i % 2 ? -1.0 : 1.0) / (2 * i + 1));
  Value y = b.mul(s, polynomial(b, b.mul(s, s), series));
  y = b.select(turned, b.add(y, b.real(type, 0.78539816339744831)), y);
  y = narrow(b, b.select(inverted, b.sub(b.real(type, 1.5707963267948966), y), y));
  y = b.select(b.compare(FP::OLT, x, b.real(x.getType(), 0.0)), b.negate(y), y);
  y = b.select(b.compare(FP::OEQ, x, b.real(x.getType(), 0.0)), x, y); // keeps -0
  return keepNan(b, x, y);
}

// Of magnitudes, in double precision: each turn leaves a remainder that is smaller by 2^50 or exact.
static Value expandRemainder(KernelBuilder &b, Value x, Value y) {
  Value a = widen(b, b.absolute(x)), d = widen(b, b.absolute(y));
  Type type = a.getType();
  Value zero = b.real(type, 0.0), rest = a;
  for (int turn = 0; turn < 2; ++turn) {
    Value whole = math::TruncOp::create(b, b.div(rest, d));
    rest = b.fma(b.negate(whole), d, rest);
    rest = b.select(b.compare(FP::OLT, rest, zero), b.add(rest, d), rest); // the quotient was rounded up
  }
  rest = b.select(b.compare(FP::OLT, a, d), a, rest); // an infinite divisor too
  Value result = narrow(b, rest);
  result = b.select(b.compare(FP::OLT, x, b.real(x.getType(), 0.0)), b.negate(result), result);
  result = b.select(b.compare(FP::OEQ, result, b.real(x.getType(), 0.0)), b.mul(x, b.real(x.getType(), 0.0)), result);
  return keepNan(b, x, keepNan(b, y, result));
}

/// |x| * 2/pi modulo 4 for |x| >= 2^23 (Payne and Hanek 1983): of 2/pi in pieces of 24 bits only four matter, as what
/// stands above them gives whole multiples of 4. The products of a piece and the 24 bits of x are exact.
static Value quartersOfLarge(KernelBuilder &b, Value x) {
  static constexpr int64_t pieces[] = {0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041};
  Value bits = b.bitcast(b.absolute(x), b.getI32Type());
  Type i32 = bits.getType(), i64 = KernelBuilder::shaped(i32, b.getI64Type()),
       f64 = KernelBuilder::shaped(i32, b.getF64Type());
  Value exponent = b.sub(arith::ShRUIOp::create(b, bits, b.integer(i32, 23)), b.integer(i32, 150));
  Value significand = b.add(arith::AndIOp::create(b, bits, b.integer(i32, 0x7fffff)), b.integer(i32, 0x800000));
  Value m = arith::SIToFPOp::create(b, f64, significand);
  SmallVector<Value> skips; // i1: whether the first 1, 2, 3, 4 pieces give multiples of 4
  for (int64_t skipped = 1; skipped <= 4; ++skipped)
    skips.push_back(b.compare(arith::CmpIPredicate::sge, exponent, b.integer(i32, 24 * skipped + 2)));
  Value rest = exponent;
  for (Value skip : skips)
    rest = b.sub(rest, b.select(skip, b.integer(i32, 24), b.integer(i32, 0)));
  Value biased = arith::ExtSIOp::create(b, i64, b.add(rest, b.integer(i32, 1023 - 24)));
  Value scale = b.bitcast(arith::ShLIOp::create(b, biased, b.integer(i64, 52)), b.getF64Type());
  Value sum;
  for (int64_t j = 0; j < 4; ++j) {
    Value piece = b.real(f64, double(pieces[j]));
    for (auto [skipped, skip] : llvm::enumerate(skips))
      piece = b.select(skip, b.real(f64, double(pieces[j + skipped + 1])), piece);
    Value part = b.mul(b.mul(m, piece), b.mul(scale, b.real(f64, std::ldexp(1.0, -24 * static_cast<int>(j)))));
    if (j < 2) // the others are below 4
      part = b.fma(math::FloorOp::create(b, b.mul(part, b.real(f64, 0.25))), b.real(f64, -4.0), part);
    sum = sum ? b.add(sum, part) : part;
  }
  return sum;
}

/// sin(x + quarter * pi/2), reduced in double precision to |r| <= pi/4 and a quadrant.
static Value sineFromQuadrant(KernelBuilder &b, Value x, int64_t quarter) {
  Value wide = widen(b, x);
  Type type = wide.getType(), integers = KernelBuilder::shaped(type, b.getI64Type());
  Value magic = b.real(type, 6755399441055744.0);
  Value shifted = b.fma(wide, b.real(type, 0.63661977236758134), magic);
  Value whole = b.sub(shifted, magic);
  Value r = b.fma(whole, b.real(type, -1.5707963267948966), wide);
  r = b.fma(whole, b.real(type, -6.123233995736766e-17), r);
  Value quarters = quartersOfLarge(b, x);
  quarters = b.select(b.compare(FP::OLT, x, b.real(x.getType(), 0.0)), b.negate(quarters), quarters);
  Value turned = b.add(quarters, magic);
  Value large = b.compare(FP::OGE, b.absolute(x), b.real(x.getType(), 16777216.0));
  r = b.select(large, b.mul(b.sub(quarters, b.sub(turned, magic)), b.real(type, 1.5707963267948966)), r);
  shifted = b.select(large, turned, shifted);
  Value z = b.mul(r, r);
  SmallVector<double> sines{1.0}, cosines{1.0};
  for (int i = 1; i < 9; ++i) {
    sines.push_back(-sines.back() / ((2 * i) * (2 * i + 1)));
    cosines.push_back(-cosines.back() / ((2 * i - 1) * (2 * i)));
  }
  Value sine = b.mul(r, polynomial(b, z, sines)), cosine = polynomial(b, z, cosines);
  Value quadrant = b.add(b.bitcast(shifted, b.getI64Type()), b.integer(integers, quarter));
  auto bit = [&](int64_t mask) -> Value {
    Value masked = arith::AndIOp::create(b, quadrant, b.integer(integers, mask));
    return b.compare(arith::CmpIPredicate::ne, masked, b.integer(integers, 0));
  };
  Value y = b.select(bit(1), cosine, sine);
  y = narrow(b, b.select(bit(2), b.negate(y), y));
  Value finite = b.compare(FP::OLT, b.absolute(x), b.real(x.getType(), kInfinity));
  return b.select(finite, y, b.real(x.getType(), std::numeric_limits<double>::quiet_NaN()));
}

static Value expandSin(KernelBuilder &b, Value x) {
  Value zero = b.real(x.getType(), 0.0);
  return b.select(b.compare(FP::OEQ, x, zero), x, sineFromQuadrant(b, x, 0)); // keeps -0
}
static Value expandCos(KernelBuilder &b, Value x) {
  return sineFromQuadrant(b, x, 1);
}

static Value expandRsqrt(KernelBuilder &b, Value x) {
  return b.div(b.real(x.getType(), 1.0), b.sqrt(x));
}

static Value powerBySquaring(KernelBuilder &b, Value x, int64_t exponent) {
  Value product, square = x;
  for (int64_t n = exponent; n > 0; n /= 2) {
    if (n % 2)
      product = product ? b.mul(product, square) : square;
    if (n > 1)
      square = b.mul(square, square);
  }
  return product ? product : b.real(x.getType(), 1.0);
}

/// |x|^exponent through exp and log in double precision, for exponents that no shorter way serves.
static Value powerByLogarithm(KernelBuilder &b, Value x, double exponent) {
  Type type = x.getType();
  Value zero = b.real(type, 0.0), infinity = b.real(type, kInfinity), magnitude = b.absolute(x);
  Value wide = widen(b, magnitude);
  Value y = b.mul(logOfDouble(b, wide), b.real(wide.getType(), exponent));
  y = narrow(b, expOfDouble(b, clamp(b, y, -300.0, 300.0)));
  y = b.select(b.compare(FP::OEQ, magnitude, zero), exponent > 0 ? zero : infinity, y);
  y = b.select(b.compare(FP::OEQ, magnitude, infinity), exponent > 0 ? infinity : zero, y);
  Value negative = b.compare(FP::OLT, x, zero);
  bool whole = std::trunc(exponent) == exponent;
  if (!whole)
    y = b.select(negative, b.real(type, std::numeric_limits<double>::quiet_NaN()), y);
  else if (std::fmod(exponent, 2.0) != 0.0)
    y = b.select(negative, b.negate(y), y);
  return keepNan(b, x, y);
}

static Value expandTensorPower(KernelBuilder &b, Value x, Value exponent) {
  Type type = x.getType();
  Value zero = b.real(type, 0.0), one = b.real(type, 1.0), infinity = b.real(type, kInfinity);
  Value magnitude = b.absolute(x), wide = widen(b, magnitude);
  Value product = b.mul(logOfDouble(b, wide), widen(b, exponent));
  Value y = narrow(b, expOfDouble(b, clamp(b, product, -300.0, 300.0)));
  Value rises = b.compare(FP::OGT, exponent, zero);
  y = b.select(b.compare(FP::OEQ, magnitude, zero), b.select(rises, zero, infinity), y);
  y = b.select(b.compare(FP::OEQ, magnitude, infinity), b.select(rises, infinity, zero), y);
  y = b.select(b.compare(FP::OEQ, magnitude, one), one, y); // to an infinite exponent too
  Value negative = b.compare(FP::OLT, x, zero);
  Value truncated = math::TruncOp::create(b, exponent), half = b.mul(exponent, b.real(type, 0.5));
  Value isWhole = b.compare(FP::OEQ, truncated, exponent);
  Value isEven = b.compare(FP::OEQ, math::TruncOp::create(b, half), half);
  Value ofNegative = b.select(isEven, y, b.negate(y));
  Value ofFraction =
      b.select(b.compare(FP::OEQ, magnitude, infinity), y, b.real(type, std::numeric_limits<double>::quiet_NaN()));
  ofNegative = b.select(isWhole, ofNegative, ofFraction);
  y = keepNan(b, x, keepNan(b, exponent, b.select(negative, ofNegative, y)));
  y = b.select(b.compare(FP::OEQ, exponent, zero), one, y);
  return b.select(b.compare(FP::OEQ, x, one), one, y);
}

static Value expandPower(KernelBuilder &b, Value x, double exponent) {
  Value one = b.real(x.getType(), 1.0);
  bool whole = std::trunc(exponent) == exponent;
  if (whole && std::abs(exponent) <= 64) {
    Value y = powerBySquaring(b, x, static_cast<int64_t>(std::abs(exponent)));
    return exponent < 0 ? b.div(one, y) : y;
  }
  if (exponent == 0.5)
    return b.sqrt(x);
  if (exponent == -0.5)
    return expandRsqrt(b, x);
  return powerByLogarithm(b, x, exponent);
}

namespace {
bool isF32(Value x) {
  return getElementTypeOrSelf(x.getType()).isF32();
}

/// A function of f32, scalar or vector.
template <typename Function, Value (*expand)(KernelBuilder &, Value)>
struct ExpandFunction : OpRewritePattern<Function> {
  using OpRewritePattern<Function>::OpRewritePattern;
  LogicalResult matchAndRewrite(Function op, PatternRewriter &rewriter) const override {
    if (!isF32(op))
      return failure();
    KernelBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expand(b, op.getOperand()));
    return success();
  }
};

/// A function of two f32.
template <typename Function, Value (*expand)(KernelBuilder &, Value, Value)>
struct ExpandBinary : OpRewritePattern<Function> {
  using OpRewritePattern<Function>::OpRewritePattern;
  LogicalResult matchAndRewrite(Function op, PatternRewriter &rewriter) const override {
    if (!isF32(op))
      return failure();
    KernelBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expand(b, op.getLhs(), op.getRhs()));
    return success();
  }
};

/// Two correctly rounded operations, of any width.
struct ExpandReciprocalRoot : OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::RsqrtOp op, PatternRewriter &rewriter) const override {
    KernelBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expandRsqrt(b, op.getOperand()));
    return success();
  }
};

/// A power of a widened f32 by a constant of 64 bits, where it is rounded to f32: what stands between goes with it.
struct ExpandPower : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    auto power = op.getIn().getDefiningOp<math::PowFOp>();
    auto wide = power ? power.getLhs().getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
    APFloat exponent(0.0);
    if (!wide || !isF32(op) || !isF32(wide.getIn()) || !matchPattern(power.getRhs(), m_ConstantFloat(&exponent)))
      return failure();
    KernelBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, expandPower(b, wide.getIn(), exponent.convertToDouble()));
    for (Operation *before : {power.getOperation(), wide.getOperation()})
      if (isOpTriviallyDead(before))
        rewriter.eraseOp(before);
    return success();
  }
};
} // namespace

bool isElementary(Operation *op) {
  if (isa<arith::RemFOp, LLVM::FRemOp, LLVM::ExpOp, LLVM::Exp2Op, LLVM::LogOp, LLVM::Log2Op, LLVM::Log10Op, LLVM::SinOp,
          LLVM::CosOp, LLVM::PowOp, LLVM::PowIOp>(op))
    return true;
  return isa<math::MathDialect>(op->getDialect()) &&
         !isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::FloorOp, math::FmaOp, math::RoundEvenOp,
              math::RoundOp, math::SqrtOp, math::TruncOp>(op);
}

void populateExpandMathPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandFunction<math::ExpOp, expandExp>, ExpandFunction<math::LogOp, expandLog>,
               ExpandFunction<math::TanhOp, expandTanh>, ExpandFunction<math::ErfOp, expandErf>,
               ExpandFunction<math::SinOp, expandSin>, ExpandFunction<math::CosOp, expandCos>,
               ExpandFunction<math::AtanOp, expandAtan>, ExpandFunction<math::ExpM1Op, expandExpm1>,
               ExpandFunction<math::Log1pOp, expandLog1p>, ExpandBinary<arith::RemFOp, expandRemainder>,
               ExpandBinary<math::PowFOp, expandTensorPower>, ExpandReciprocalRoot, ExpandPower>(patterns.getContext());
}

LogicalResult expandMath(Operation *kernels) {
  RewritePatternSet patterns(kernels->getContext());
  populateExpandMathPatterns(patterns);
  // This driver folds nothing: math.exp of a constant would become what the libm of the machine that compiles makes of
  // it.
  walkAndApplyPatterns(kernels, std::move(patterns));
  WalkResult left = kernels->walk([](Operation *op) {
    if (!isElementary(op))
      return WalkResult::advance();
    op->emitOpError("has no expansion for ") << op->getResult(0).getType() << ": kernels compute such functions in f32";
    return WalkResult::interrupt();
  });
  return failure(left.wasInterrupted());
}

} // namespace ztc::codegen
