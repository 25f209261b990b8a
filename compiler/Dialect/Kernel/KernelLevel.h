// How far kernels have come on their way to machine code.
#pragma once

namespace ztc {

/// What the kernels of a step are after a pass of phase `codegen`.
enum class KernelLevel {
  Mapped, ///< functions for a processor's lanes and a GPU's threads, in upstream dialects (ztc-map-kernels)
  Lowered ///< the LLVM dialect (ztc-lower-kernels)
};

} // namespace ztc
