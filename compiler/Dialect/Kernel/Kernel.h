// The kernel dialect: kernels before they are machine code.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ztc::kernel {

/// On a function of `@gpu`: its #kernel.launch.
inline constexpr llvm::StringLiteral kLaunch = "kernel.launch";
/// The module of a step that holds kernels, and its modules: forms for all targets, functions for processors, for GPUs.
inline constexpr llvm::StringLiteral kKernels = "kernels", kForms = "forms", kHost = "host", kGpu = "gpu";

/// After a kernel's name: its variant that adds to the results instead of overwriting them. No group of ops is named
/// so, as one underscore stands between their names.
inline constexpr llvm::StringLiteral kAddSuffix = "__add";

} // namespace ztc::kernel

#include "compiler/Dialect/Kernel/KernelDialect.h.inc"
#include "compiler/Dialect/Kernel/KernelEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Kernel/KernelAttributes.h.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Kernel/KernelOps.h.inc"
