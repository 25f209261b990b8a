// The one rule of what becomes one kernel with what reads it.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc {

/// Why a group of pointwise ops is one: what its last op takes in by canFuse.
inline constexpr llvm::StringLiteral kChainReason = "pointwise chain";

/// True for what a kernel computes and no group has yet.
bool isUngrouped(mlir::Operation *op);

/// Whether `producer` may join a group: all of its users are in the group (`isInside`), it is computed element by
/// element or only moves elements, and each element is read at most once, or once in a row where a row has one.
bool canFuse(mlir::Operation *producer, llvm::function_ref<bool(mlir::Operation *)> isInside);

/// A transpose that leaves the last dimension where it is: rows move as they are.
bool movesRows(mlir::Operation *op);

/// A cast to a wider float: its readers take it in, so that a narrow value is not stored twice.
bool isWidening(mlir::Operation *op);

} // namespace ztc
