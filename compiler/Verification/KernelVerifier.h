// Runs the generated kernels of a step, each on random operands, and holds them against the interpreter on their
// groups.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::verification {

/// What was found out about the kernels of one module.
struct KernelReport {
  unsigned groups = 0;            ///< different groups that were run
  unsigned units = 0;             ///< of verifyKernelUnits: units that were looked at
  unsigned calls = 0;             ///< of verifyLibraryKernels: different kernels of different calls
  unsigned callUnits = 0;         ///< their units and blocks
  bool onEngine = false;          ///< also by their kernels for GPUs, on the engine
  std::vector<std::string> wrong; ///< "rms_norm_swiglu (x86-64-v3): result 0, element 17 is ..., expected ..."
  std::vector<std::string> gaps;  ///< what could not be run, each with the reason
};

/// Runs each different group of `module`, which has been through phase `codegen`, by its images for the processors that
/// this machine is, and by the one for `simt` on the engine, in two orders of threads. Operands are random within
/// [-2, 2]; results may differ by the rounding of their type and the order of sums. `forms`, where given, is the module
/// `@forms` as a pass left it that changed on purpose what kernels compute: they are held to that.
KernelReport verifyKernels(mlir::ModuleOp module, mlir::ModuleOp forms = {});

/// The same for a plan of any size: each different kernel of a group runs on a few units of its parallel range, the
/// first two, one in the middle and the last, which may be a partial one, with its operands at their real sizes (on the
/// engine the blocks that have them), and so does its variant that adds. What these units write is held to the
/// interpreter on those elements alone (ElementInterpreter.h); a kernel that reads sums of another one's from the
/// workspace is given random ones. Of units with very many elements the first, the last and some between are looked at.
KernelReport verifyKernelUnits(mlir::ModuleOp module, mlir::ModuleOp forms = {});

/// The kernels of library calls (runtime/Format/ServiceKernels.md), at any size: each different one of each different
/// call runs on a few rows, or on the engine on the blocks that have them, over memory of the call's real sizes. What
/// these leave is held to what the interpreter's rule gives for those rows. Products between them are the device's own
/// (tests/conformance holds them), and so is what it does without a kernel.
KernelReport verifyLibraryKernels(mlir::ModuleOp module);

} // namespace ztc::verification
