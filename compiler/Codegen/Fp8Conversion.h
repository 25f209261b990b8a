// Rounding to fp8 on a GPU: an instruction that rounds two numbers, where the target has it.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace ztc::codegen {

/// The PTX version, 81 is 8.1, from which every target with products in fp8 has the instruction.
inline constexpr unsigned kFp8ConversionPtx = 81;

/// Whether a kernel of `module` rounds pairs of numbers to fp8 (`llvm.nvvm.ff.to.e4m3x2.rn`, `e5m2x2`).
bool convertsToFp8(const llvm::Module &module);

/// Writes these conversions out for a target without the instruction, before the optimizer runs: integer arithmetic of
/// the same codes, as toFp8 of runtime/Core/Fp8.h. Of NaN both make 0x7f.
void expandFp8Conversions(llvm::Module &module);

} // namespace ztc::codegen
