// The kernel dialect: kernels before they are machine code.
#pragma once
#include "mlir/IR/Attributes.h"
#include "mlir/IR/Dialect.h"

namespace ztc::kernel {

/// On a function of `@gpu`: its #kernel.launch.
inline constexpr llvm::StringLiteral kLaunch = "kernel.launch";
/// The module of a step that holds kernels, and its two modules.
inline constexpr llvm::StringLiteral kKernels = "kernels", kHost = "host", kGpu = "gpu";

} // namespace ztc::kernel

#include "compiler/Dialect/Kernel/KernelDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Kernel/KernelAttributes.h.inc"
