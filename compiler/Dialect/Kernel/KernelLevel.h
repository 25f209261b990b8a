// How far kernels have come on their way to machine code.
#pragma once
#include <functional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace ztc {

/// What the kernels of a step are after a pass of phase `codegen`.
enum class KernelLevel {
  /// A kernel.func of tensors per kernel of groups in `@forms`, the same for all targets (ztc-form-kernels): what is
  /// rewritten here reaches processors and GPUs. The kernels of library calls are in `@host` and `@gpu` already.
  Forms,
  Host, ///< `@host` is whole: functions for a processor's lanes (ztc-map-to-host); only where a target is a processor
  Gpu,  ///< `@gpu` is whole: functions for a GPU's threads (ztc-map-to-gpu); only where a target is a GPU
  /// Both, whichever targets there are, in upstream dialects. Elementary functions are ops of math: nothing that folds
  /// may run at these levels, it would take the libm of the machine that compiles.
  Mapped,
  Expanded, ///< the same with elementary functions as arithmetic (ztc-expand-math)
  Lowered   ///< the LLVM dialect (ztc-lower-kernels)
};

/// Called where kernels have come to a level, to add passes there: plugins', dumps.
using AfterKernels = std::function<void(mlir::OpPassManager &, KernelLevel)>;

} // namespace ztc
