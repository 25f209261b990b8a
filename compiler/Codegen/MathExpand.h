// Elementary functions as polynomials over arith and math.fma: the same bits on every target and vector width, no libm.
#pragma once
#include "compiler/Codegen/KernelBuilder.h"
#include "mlir/IR/PatternMatch.h"

namespace ztc::codegen {

/// Whether the value of `op` is what a library for elementary functions makes of it. What IEEE 754 rounds correctly
/// (math.sqrt, math.fma, rounding to whole numbers) is not.
bool isElementary(mlir::Operation *op);

/// Patterns from functions of f32, scalar or vector, to arithmetic. Infinities, NaN, signed zeros and denormal numbers
/// are right. Largest errors in units in the last place (tests/unit/compiler/CodegenMathTests.cpp measures them):
///
/// | math.exp                                               | 1.5                                                     |
/// | math.tanh, math.erf                                    | 2                                                       |
/// | math.log, math.sin, math.cos (of any x), math.atan, math.expm1, math.log1p | 1                                   |
/// | math.powf                                              | 1, as C's pow; the sign of a zero base is not looked at |
/// | math.rsqrt, of any width                               | 1 / sqrt(x), each correctly rounded                     |
/// | arith.remf                                             | a - b * trunc(a / b), exact for |a / b| < 2^100         |
///
/// and math.powf of a widened f32 by a constant of 64 bits, rounded to f32: a whole exponent of at most 64 in magnitude
/// by multiplication, one half by the square root, else by exp and log in double precision (1 ulp; NaN for x < 0 unless
/// the exponent is a whole number).
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns);

/// exp of f32 numbers of at most 88, for what is rounded to 16 bits afterwards: relative error below 2.5e-7 from -10
/// on, 1.3e-6 everywhere; results below 2^-126 are 0, NaN stays NaN. 11 instructions of a GPU, math.exp takes 25; ones
/// that round alike everywhere, where its own (ex2.approx) has bits that nothing else has.
mlir::Value narrowExp(KernelBuilder &b, mlir::Value x);

/// Coefficients of 2^r in it, |r| <= 1/2, from the constant term upwards: minimax, relative 7.5e-8.
inline constexpr double kNarrowExp[] = {1.0,           0x1.62e428p-1, 0x1.ebf918p-3,
                                        0x1.c6b6e6p-5, 0x1.3d0c52p-7, 0x1.5c08dcp-10};

/// 1 / (1 + exp(-x)) of f32 numbers, for what is rounded to 16 bits: relative error below 5e-7 where |x| <= 10, 1.5e-6
/// everywhere; results below 2^-126 are 0, NaN stays NaN. 21 instructions of a GPU, with an IEEE division and math.exp
/// 41 and a branch.
mlir::Value narrowSigmoid(KernelBuilder &b, mlir::Value x);

/// Coefficients of 1 / (1 + e) in it, 0 <= e <= 1, from the constant term upwards: minimax, relative 2.98e-4, of which
/// one step of Newton's makes its square. The remainder is that of Chebyshev's T5(1 - 2e) / T5(3).
inline constexpr double kNarrowReciprocal[] = {0x1.ffd906p-1, -0x1.f83c4ap-1, 0x1.bb5666p-1, -0x1.10d2b6p-1,
                                               0x1.37cc3cp-3};

/// Applies these patterns to all kernels below `kernels` and folds nothing. A function that none of them fits is a
/// located diagnostic.
llvm::LogicalResult expandMath(mlir::Operation *kernels);

} // namespace ztc::codegen
