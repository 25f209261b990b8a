// Proof that a matrix of positions by positions holds nothing where the second lies after the first.
#pragma once
#include "mlir/IR/Value.h"

namespace ztc {

/// What stands where the key, a position, lies after the query.
enum class Hidden {
  Zero,  ///< 0: a sum over keys does not see it
  Lowest ///< -inf or a number near it: a maximum over keys and a softmax do not
};

/// Whether `value` is so, along its dimensions `query` and `key`, both of all positions; key may be followed by what is
/// no position (a sink). False where that is not seen.
bool hidesLater(mlir::Value value, int64_t query, int64_t key, Hidden hidden);

/// The dimension of `from` that dimension `along` of `to`, another shape of the same elements, is; -1: none alone.
int64_t sameDimension(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, int64_t along);

} // namespace ztc
