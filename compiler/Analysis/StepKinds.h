// What an op becomes in a step: an alias, a library call, or (part of) a generated kernel.
#pragma once
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include <optional>

namespace ztc {

/// Module attribute, i64, of phase `schedule`: how many gathers run ahead of the one that is used.
inline constexpr llvm::StringLiteral kPrefetch = "dist.prefetch";

/// What `op`'s one result is an alias of (StorageAliasOpInterface). Nothing otherwise (graph.accumulate and dist.pack
/// are not answered here: what they alias is decided by AssignSlots).
std::optional<Alias> aliasOf(mlir::Operation *op);

/// The value at the end of a chain of aliases, with the sum of the offsets; an own shard where one is on the way.
Alias resolveAlias(mlir::Value value);

/// True for a graph.cast that rounds gradients to the type in which they go over the wire and into the update: a bucket
/// of local ones, or the rank's shard that added up after the reductions (isSumCast).
bool isWireCast(mlir::Operation *op);
bool isSumCast(mlir::Operation *op);

/// The bucket of local gradients that `value` is: a dist.pack, as it is or rounded by a wire cast; null for others.
mlir::Operation *localGradientOf(mlir::Value value);

/// True for ops that the device runs by a library (LibraryCallOpInterface), and for wire casts.
bool isLibraryCall(mlir::Operation *op);

/// True for what sends data between ranks: whole collectives, or the start and the done of one.
bool isCollective(mlir::Operation *op);
bool isCollectiveStart(mlir::Operation *op);
bool isCollectiveDone(mlir::Operation *op);

/// True for ops that cost nothing: aliases, constants, packs, accumulates, terminators.
bool isFree(mlir::Operation *op);

/// True for what a kernel computes: ops that are not free, no library calls and no collectives. A group is one.
bool isComputed(mlir::Operation *op);

/// True where result `index` of `op` can be added to what its storage holds, without a kernel of its own.
bool canAccumulate(mlir::Operation *op, unsigned index);

} // namespace ztc
