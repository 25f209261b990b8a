// The buckets of a module by name, for readers of the length of a flat value.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace ztc {

class BucketTable {
public:
  explicit BucketTable(mlir::ModuleOp module) {
    for (auto bucket : module.getOps<dist::BucketOp>())
      buckets[bucket.getSymNameAttr()] = bucket;
  }

  /// The bucket of that name; null where there is none.
  dist::BucketOp lookup(mlir::FlatSymbolRefAttr name) const {
    return name ? buckets.lookup(name.getAttr()) : dist::BucketOp();
  }

  /// Elements of a value's type: of a shard or a whole bucket those of the bucket, without padding. 0 where the length
  /// is open and no bucket says it.
  int64_t elements(mlir::Type type) const;
  /// The transformer block that the bucket of that name belongs to, or -1.
  int64_t layer(mlir::FlatSymbolRefAttr name) const;
  /// Elements of all buckets together: the parameters, and the gaps between them.
  int64_t elements() const;

private:
  llvm::DenseMap<mlir::StringAttr, dist::BucketOp> buckets;
};

/// The transformer block that a bucket belongs to, or -1.
int64_t layerOf(dist::BucketOp bucket);

/// Whether a bucket is small beside another (the last norm beside the head), in elements: its computation hides nothing
/// of the other's transfer, and its own transfer takes next to no time and memory.
constexpr bool isSmallBeside(int64_t elements, int64_t other) {
  return elements * 16 < other;
}

} // namespace ztc
