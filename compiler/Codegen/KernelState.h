// What the files of KernelModule share.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace ztc {

struct KernelModule::State {
  State();

  /// `wanted`, cleaned of what a symbol cannot hold and numbered where it is taken.
  std::string uniqueName(llvm::StringRef wanted);
  /// A kernel function without a body: an entry block with (buffers, scalars, begin, end). The builder stands at its
  /// end.
  mlir::func::FuncOp createKernel(codegen::KernelBuilder &b, llvm::StringRef name);
  /// Closes the function at the builder.
  static void finishKernel(codegen::KernelBuilder &b, mlir::func::FuncOp kernel);
  codegen::KernelBuilder builder();

  mlir::MLIRContext context; ///< of the kernels alone: no pass of the compiler looks at them
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::StringMap<unsigned> names;      ///< how often a name was asked for
  llvm::StringMap<LoweredGroup> groups; ///< by structural key
  llvm::StringMap<KernelDescription> services;
};

namespace codegen {
/// Lowers a group to one or two kernels (Forms.cpp).
llvm::FailureOr<LoweredGroup> lowerGroup(KernelModule::State &state, graph::FusionOp group);
/// Emits the variants that add to results, and says so in `lowered`.
llvm::LogicalResult lowerAddVariants(KernelModule::State &state, graph::FusionOp group, LoweredGroup &lowered);
} // namespace codegen

} // namespace ztc
