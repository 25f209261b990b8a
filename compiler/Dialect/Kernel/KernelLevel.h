// How far kernels have come on their way to machine code.
#pragma once
#include <functional>

namespace mlir {
class OpPassManager;
}

namespace ztc {

/// What the kernels of a step are after a pass of phase `codegen`.
enum class KernelLevel {
  Mapped, ///< functions for a processor's lanes and a GPU's threads, in upstream dialects (ztc-map-kernels)
  Lowered ///< the LLVM dialect (ztc-lower-kernels)
};

/// Called where kernels have come to a level, to add passes there: plugins', dumps.
using AfterKernels = std::function<void(mlir::OpPassManager &, KernelLevel)>;

} // namespace ztc
