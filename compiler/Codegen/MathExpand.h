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

/// Applies these patterns to all kernels below `kernels` and folds nothing. A function that none of them fits is a
/// located diagnostic.
llvm::LogicalResult expandMath(mlir::Operation *kernels);

} // namespace ztc::codegen
