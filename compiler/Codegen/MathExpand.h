// Elementary functions as polynomials over arith and math.fma: the same bits on every target and vector width, no libm.
#pragma once
#include "compiler/Codegen/KernelBuilder.h"

namespace ztc::codegen {

/// Operands are f32, scalar or vector. Infinities, NaN, signed zeros and denormal numbers are right; largest errors in
/// units in the last place (tests/unit/compiler/CodegenMathTests.cpp measures them).
mlir::Value expandExp(KernelBuilder &b, mlir::Value x);     ///< 1.5 ulp
mlir::Value expandLog(KernelBuilder &b, mlir::Value x);     ///< 1 ulp
mlir::Value expandTanh(KernelBuilder &b, mlir::Value x);    ///< 2 ulp
mlir::Value expandSigmoid(KernelBuilder &b, mlir::Value x); ///< 2.5 ulp
mlir::Value expandErf(KernelBuilder &b, mlir::Value x);     ///< 2 ulp
mlir::Value expandSin(KernelBuilder &b, mlir::Value x);     ///< 1 ulp, of any x
mlir::Value expandCos(KernelBuilder &b, mlir::Value x);     ///< 1 ulp, of any x
mlir::Value expandRsqrt(KernelBuilder &b, mlir::Value x);   ///< 1 / sqrt(x): two correctly rounded operations
mlir::Value expandAtan(KernelBuilder &b, mlir::Value x);    ///< 1 ulp
mlir::Value expandExpm1(KernelBuilder &b, mlir::Value x);   ///< 1 ulp
mlir::Value expandLog1p(KernelBuilder &b, mlir::Value x);   ///< 1 ulp
/// a - b * trunc(a / b), exact for |a / b| < 2^100.
mlir::Value expandRemainder(KernelBuilder &b, mlir::Value a, mlir::Value divisor);
/// a^exponent, as C's pow (1 ulp; the sign of a zero base is not looked at).
mlir::Value expandTensorPower(KernelBuilder &b, mlir::Value a, mlir::Value exponent);
/// x^exponent: a whole exponent of at most 64 in magnitude by multiplication, one half by the square root, else by exp
/// and log in double precision (1 ulp; NaN for x < 0 unless the exponent is a whole number).
mlir::Value expandPower(KernelBuilder &b, mlir::Value x, double exponent);

} // namespace ztc::codegen
