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

/// Chooses kernels for all groups and library calls, function by function, and writes the choice to the ops
/// (plan.launches, plan.workspace_bytes, plan.service_kernels). The result depends on the module alone.
llvm::FailureOr<std::vector<SelectedKernel>> selectKernels(mlir::ModuleOp module, KernelModule &kernels);

} // namespace ztc
