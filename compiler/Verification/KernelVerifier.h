// Runs the generated kernels of a step, each on random operands, and holds them against the interpreter on their
// groups.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// What was found out about the kernels of one module.
struct KernelReport {
  unsigned groups = 0;            ///< different groups that were run
  bool onEngine = false;          ///< also by their kernels for GPUs, on the engine
  std::vector<std::string> wrong; ///< "rms_norm_swiglu (x86-64-v3): result 0, element 17 is ..., expected ..."
  std::vector<std::string> gaps;  ///< what could not be run, each with the reason
};

/// Runs each different group of `module`, which has been through phase `codegen`, by its images for the processors that
/// this machine is, and by the one for `simt` on the engine, in two orders of threads. Operands are random within
/// [-2, 2]; results may differ by the rounding of their type and the order of sums. `forms`, where given, is the module
/// `@forms` as a pass left it that changed on purpose what kernels compute: they are held to that.
KernelReport verifyKernels(mlir::ModuleOp module, mlir::ModuleOp forms = {});

} // namespace ztc
