// The choice of kernels for a whole module.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc {

/// A kernel of the module, in the order in which it was first wanted.
struct SelectedKernel {
  KernelDescription description;
  std::string text; ///< of the group; empty for service kernels
};

/// Chooses kernels for all groups, function by function, and writes the choice to the ops (plan.launches,
/// plan.workspace_bytes). The result depends on the module alone.
llvm::FailureOr<std::vector<SelectedKernel>> selectGroupKernels(mlir::ModuleOp module, KernelModule &kernels);

/// The same for library calls (plan.service_kernels); it also depends on the kinds of targets that `kernels` is for.
llvm::FailureOr<std::vector<SelectedKernel>> selectLibraryKernels(mlir::ModuleOp module, KernelModule &kernels);

/// Adds a `plan.kernel` without images for each kernel, before `@kernels`.
void declareKernels(mlir::ModuleOp module, llvm::ArrayRef<SelectedKernel> kernels);

} // namespace ztc
