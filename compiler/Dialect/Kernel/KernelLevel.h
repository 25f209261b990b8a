// How far kernels have come on their way to machine code.
#pragma once
#include <functional>

namespace mlir {
class OpPassManager;
}

namespace ztc {

/// What the kernels of a step are after a pass of phase `codegen`.
enum class KernelLevel {
  /// Functions for a processor's lanes and a GPU's threads, in upstream dialects (ztc-map-kernels). Elementary
  /// functions
  /// are ops of math: nothing that folds may run here, it would take the libm of the machine that compiles.
  Mapped,
  Expanded, ///< the same with elementary functions as arithmetic (ztc-expand-math)
  Lowered   ///< the LLVM dialect (ztc-lower-kernels)
};

/// Called where kernels have come to a level, to add passes there: plugins', dumps.
using AfterKernels = std::function<void(mlir::OpPassManager &, KernelLevel)>;

} // namespace ztc
