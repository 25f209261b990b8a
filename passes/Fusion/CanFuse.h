// The one rule of what becomes one kernel with what reads it.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc {

/// Why a group of pointwise ops is one: what its last op takes in by canFuse.
inline constexpr llvm::StringLiteral kChainReason = "pointwise chain of one shape";

/// True for what a kernel computes and no group has yet.
bool isUngrouped(mlir::Operation *op);

/// Whether `producer` can stand in the group of `root`, an op of the same block: nobody outside reads it (`isInside`
/// says who is in the group), it is computed element by element, and it has the shape of `root`.
bool canFuse(mlir::Operation *producer, mlir::Operation *root, llvm::function_ref<bool(mlir::Operation *)> isInside);

/// A cast to a wider float: its readers take it in, so that a narrow value is not stored twice.
bool isWidening(mlir::Operation *op);

} // namespace ztc
