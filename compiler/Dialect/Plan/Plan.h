// The plan dialect: flat records, one to one with runtime/Format/plan.proto. See RationalePlan.md.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "compiler/Dialect/Plan/PlanEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttributes.h.inc"

#include "compiler/Dialect/Plan/PlanDialect.h.inc"
#include "compiler/Dialect/Plan/PlanInterfaces.h.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.h.inc"

namespace ztc::plan_ir {

/// Attributes that phase `assign` leaves on functions and ops for ConvertToPlan. All are discardable.
/// On an op: an array with one #plan.place per result; on a function argument: one #plan.place.
inline constexpr llvm::StringLiteral kPlaces = "plan.places";
inline constexpr llvm::StringLiteral kPlace = "plan.place";
/// On an op: an array with one #plan.accumulate per result.
inline constexpr llvm::StringLiteral kAccumulate = "plan.accumulate";
/// On an op: an array of #kernel.schedule, the kernels that run it (phase `assign`, PlanKernels).
inline constexpr llvm::StringLiteral kLaunches = "plan.launches";
/// On a library call: a dictionary of the service kernels it uses, by field name of plan.proto.
inline constexpr llvm::StringLiteral kServiceKernels = "plan.service_kernels";
/// On an op: bytes of workspace that its kernels share.
inline constexpr llvm::StringLiteral kWorkspaceBytes = "plan.workspace_bytes";
/// On an op: an array of #plan.place, its workspaces.
inline constexpr llvm::StringLiteral kScratch = "plan.scratch";
/// On an op: rows a library call works on at a time.
inline constexpr llvm::StringLiteral kChunk = "plan.chunk";

} // namespace ztc::plan_ir
