// The one rule of what becomes one kernel with what reads it.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc {

/// Why a group of pointwise ops is one: what its last op takes in by canFuse.
inline constexpr llvm::StringLiteral kChainReason = "pointwise chain";

/// True for what a kernel computes and no group has yet.
bool isUngrouped(mlir::Operation *op);

/// A transpose that leaves the last dimension where it is: rows move as they are.
bool movesRows(mlir::Operation *op);

/// Whether what `op` computes is computed from its operands element by element, each of them read at most once.
bool readsOnce(mlir::Operation *op);

/// Whether `producer` can stand in a group: nobody outside reads it (`isInside` says who is in the group), it is
/// computed element by element or hands elements on, and each element is read at most once.
bool canFuse(mlir::Operation *producer, llvm::function_ref<bool(mlir::Operation *)> isInside);

/// A cast to a wider float: its readers take it in, so that a narrow value is not stored twice.
bool isWidening(mlir::Operation *op);

} // namespace ztc
