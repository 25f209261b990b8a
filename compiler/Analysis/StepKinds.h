// What an op becomes in a step: an alias, a library call, or (part of) a generated kernel.
#pragma once
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include <optional>

namespace ztc {

/// An op whose result is another value's storage.
struct Alias {
  mlir::Value source;
  int64_t offsetBytes = 0; ///< where the result starts in the source
};

/// What `op`'s one result is an alias of: reshape, recompute_barrier, a contiguous slice, a view of a bucket. Nothing
/// otherwise (graph.accumulate and dist.pack are not answered here: what they alias is decided by AssignSlots).
std::optional<Alias> aliasOf(mlir::Operation *op);

/// The value at the end of a chain of aliases, with the sum of the offsets.
Alias resolveAlias(mlir::Value value);

/// True for graph ops that the device runs by a library: products, attention, linear_cross_entropy, embedding and its
/// gradient.
bool isLibraryCall(mlir::Operation *op);

/// True for ops that cost nothing: aliases, constants, packs, accumulates, terminators.
bool isFree(mlir::Operation *op);

/// True where result `index` of `op` can be added to what its storage holds, without a kernel of its own.
bool canAccumulate(mlir::Operation *op, unsigned index);

} // namespace ztc
