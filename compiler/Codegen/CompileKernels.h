// From the LLVM dialect to machine code.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace ztc::codegen {

/// The dialects of kernels' bodies, and how those that remain become LLVM IR.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Machine code for one target, and what of it comes from outside.
struct CompiledImage : KernelImage {
  std::string name;                           ///< of a cubin from outside: the kernel.func that it is for; empty: none
  std::map<std::string, std::string> outside; ///< by kernel: a kind of #kernel.object
};

/// Compiles the lowered modules `@host` and `@gpu` of `kernels`, for each target the one that it needs: targets compile
/// on threads of their own. One image per target, in order; after that of a GPU a cubin from outside for each
/// kernel.func that has one for it. `cacheFolder`: where machine code is kept between compilations; empty: nowhere.
llvm::FailureOr<std::vector<CompiledImage>>
compileKernels(mlir::ModuleOp kernels, llvm::ArrayRef<llvm::StringRef> targets, llvm::StringRef cacheFolder = "");

} // namespace ztc::codegen
