// What kernels for GPUs that multiply by the matrix instruction mma.m16n8k16 share: factors of bf16 or f16 in registers
// of 32 bits, sums of f32.
#pragma once
#include "compiler/Codegen/KernelBuilder.h"
#include <array>

namespace ztc::codegen {

/// Four matrices of 8 x 8 elements of 16 bits in shared memory, to whose rows the lanes point: a register of each.
std::array<mlir::Value, 4> loadMatrices(KernelBuilder &b, mlir::Value address, bool transposed);

/// sums (4 of f32) += left * right of factors of type `element`; right0, right1: half of what four matrices give.
void multiplyMatrices(KernelBuilder &b, mlir::Type element, llvm::MutableArrayRef<mlir::Value> sums,
                      const std::array<mlir::Value, 4> &left, mlir::Value right0, mlir::Value right1);

/// Two sums, rounded to bf16 or f16, in one register, the first in the lower half.
mlir::Value packPair(KernelBuilder &b, mlir::Type element, mlir::Value first, mlir::Value second);

} // namespace ztc::codegen
