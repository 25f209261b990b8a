// Slots of buckets: the forms and places that the ZeRO stage gives their values.
#pragma once
#include "compiler/Analysis/BucketTable.h"
#include "passes/Placement/SlotTable.h"

namespace ztc {

/// Elements of the buffer that a reduce_scatter receives into, at most: it works in pieces.
inline constexpr uint64_t kReceiveElements = 256 << 10;
/// Elements of the buffer that an all_reduce receives scalars into.
inline constexpr uint64_t kScalarElements = 64;

class BucketSlots {
public:
  BucketSlots(mlir::ModuleOp module, SlotTable &slots);

  /// Makes the slots of all buckets, parameters first, then their states: frozen ones too, which @update does not
  /// mention.
  void addAll();

  /// Where a value of this type and kind (parameter, exp_avg, exp_avg_sq, gradient, reduced_gradient) of a bucket lies:
  /// its slot, or the own shard of it. A located error where the stage has no such place.
  llvm::FailureOr<SlotPlace> place(mlir::Operation *where, mlir::FlatSymbolRefAttr bucket, llvm::StringRef kind,
                                   mlir::Type type);

  /// A transient slot for a whole bucket that is gathered from the shards in `shards`; at one rank it is that slot.
  SlotPlace gathered(mlir::RankedTensorType type, SlotPlace shards, llvm::StringRef reason);
  /// A transient slot for this rank's gradient of a whole bucket.
  SlotPlace localGradient(mlir::RankedTensorType type);
  /// A buffer for what other ranks send, of at most `elements` of `type`.
  SlotPlace receiveBuffer(const llvm::Twine &name, mlir::Type type, uint64_t elements, int64_t layer,
                          llvm::StringRef reason);

  const BucketTable &table() const { return buckets; }

private:
  /// Whether the slot of this kind holds the rank's shard only.
  bool isSharded(llvm::StringRef kind) const;
  SlotPlace slotOf(dist::BucketOp bucket, llvm::StringRef kind, mlir::Type elementType);
  SlotSpec transient(mlir::RankedTensorType type, llvm::StringRef what, plan_ir::SlotClass slotClass);

  mlir::ModuleOp module;
  SlotTable &slots;
  BucketTable buckets;
  int64_t zero = 0;
};

} // namespace ztc
