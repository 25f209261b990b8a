// From the LLVM dialect to machine code.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace ztc::codegen {

/// The dialects of kernels' bodies, and how those that remain become LLVM IR.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Compiles the lowered modules `@host` and `@gpu` of `kernels`, for each target the one that it needs: targets compile
/// on threads of their own. One image per target, in order.
llvm::FailureOr<std::vector<KernelImage>> compileKernels(mlir::ModuleOp kernels,
                                                         llvm::ArrayRef<llvm::StringRef> targets);

} // namespace ztc::codegen
