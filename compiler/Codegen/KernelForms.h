// The level of forms: what the kernels of groups compute, once for all targets, and the mappings that read it.
#pragma once
#include "compiler/Codegen/GroupPlan.h"
#include "compiler/Dialect/Kernel/Kernel.h"

namespace ztc::codegen {
struct ColumnPlans;

/// What a kernel sees of a type: a shard of one bucket is as that of any other.
mlir::Type withoutLayout(mlir::Type type);

/// What a #kernel.schedule says of a planned kernel.
kernel::ScheduleAttr scheduleOf(mlir::MLIRContext *context, const KernelDescription &kernel);

/// Adds the kernel.func of `group` to the module `forms`. `lowered` has the names of its kernels.
kernel::FuncOp addForm(mlir::ModuleOp forms, graph::FusionOp group, const LoweredGroup &lowered,
                       llvm::ArrayRef<unsigned> classes);

/// The plan of what the body of `form` computes. It must be what its schedules say, or phase `assign` has placed other
/// buffers than its kernels use: a located diagnostic.
llvm::FailureOr<GroupPlan> planOf(kernel::FuncOp form);

/// Calls `emit` for each kernel that the forms of `kernels` stand for and that does not come from outside as each of
/// `kinds`, and for each variant that adds to results.
llvm::LogicalResult mapForms(mlir::ModuleOp kernels, llvm::ArrayRef<kernel::ObjectKind> kinds,
                             llvm::function_ref<llvm::LogicalResult(mlir::Operation *group, const PlannedKernel &,
                                                                    llvm::StringRef name, bool add)>
                                 emit);

/// Emits a kernel again and again until its column loops suit what is computed in them. `attempt` says in its second
/// argument whether another one is worth its while.
llvm::LogicalResult untilColumnsSuit(mlir::Operation *group,
                                     llvm::function_ref<llvm::LogicalResult(ColumnPlans &, bool &restart)> attempt);

/// Writes the kernels of `@forms` in the module `@kernels` as functions of `@host` (MapToHost.cpp), of `@gpu`
/// (MapToGpu.cpp). A body that cannot be lowered is a located diagnostic.
llvm::LogicalResult mapToHost(mlir::ModuleOp kernels);
llvm::LogicalResult mapToGpu(mlir::ModuleOp kernels);

} // namespace ztc::codegen
