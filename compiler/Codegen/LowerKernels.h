// From functions of upstream dialects to the LLVM dialect.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace ztc::codegen {

/// What a scf.for says of its loop (unrolling), for LLVM.
inline constexpr llvm::StringLiteral kLoopAnnotation = "llvm.loop_annotation";

/// Adds the conversions of `@host` or `@gpu` to the LLVM dialect. `finishLowering` comes after them.
void addLoweringPasses(mlir::OpPassManager &pm);

/// What the conversions leave to do: annotations of loops go to their branches, and a #kernel.launch becomes the
/// attributes of NVVM that say the same.
void finishLowering(mlir::ModuleOp kernels);

/// The modules of functions in `@kernels`: `@host` and `@gpu`.
llvm::SmallVector<mlir::ModuleOp> mappedModules(mlir::ModuleOp kernels);

} // namespace ztc::codegen
