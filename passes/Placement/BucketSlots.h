// Slots of buckets: the forms and places that the ZeRO stage gives their values.
#pragma once
#include "compiler/Analysis/BucketTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Placement/SlotTable.h"

namespace ztc {

/// Elements of the buffer that a reduce_scatter receives into, at most: it works in pieces.
inline constexpr uint64_t kReceiveElements = 256 << 10;
/// Elements of the buffer that an all_reduce receives scalars into.
inline constexpr uint64_t kScalarElements = 64;

/// The kind of a whole bucket's gradient where it adds up in a wider type than the one that goes over the wire.
inline constexpr llvm::StringLiteral kAccumulatedGradient = "accumulated_gradient";

class BucketSlots {
public:
  BucketSlots(mlir::ModuleOp module, SlotTable &slots);

  /// Makes the slots of all buckets, parameters first, then their states: frozen ones too, which @update does not
  /// mention.
  void addAll();

  /// Where a value of this type and kind (parameter, a state, master, gradient, reduced_gradient) of a
  /// bucket lies: its slot, or the own shard of it. A located error where the stage has no such place.
  llvm::FailureOr<SlotPlace> place(mlir::Operation *where, mlir::FlatSymbolRefAttr bucket, llvm::StringRef kind,
                                   mlir::Type type);

  /// A transient slot for a whole bucket that is gathered from the shards in `shards`; at one rank it is that slot.
  SlotPlace gathered(mlir::RankedTensorType type, SlotPlace shards, llvm::StringRef reason);
  /// A transient slot for the fp8 codes of a whole bucket, of which the rank makes its own shard.
  SlotPlace gatheredCodes(mlir::RankedTensorType type, llvm::StringRef reason);
  /// A transient slot for this rank's gradient of a whole bucket, in the type of ops or in that of the wire.
  SlotPlace localGradient(mlir::RankedTensorType type);
  SlotPlace wireGradient(mlir::RankedTensorType type);
  /// A transient slot for a whole bucket of Muon's directions.
  SlotPlace direction(mlir::RankedTensorType type, llvm::StringRef what, llvm::StringRef reason);
  /// A buffer for what other ranks send: of at most `elements` of `type`, or of `each` of every rank.
  SlotPlace receiveBuffer(const llvm::Twine &name, mlir::Type type, uint64_t elements, int64_t layer,
                          llvm::StringRef reason, uint64_t each = 0);

  const BucketTable &table() const { return buckets; }

private:
  /// The element type of a bucket's values of this kind; null where the bucket has none.
  mlir::Type elementType(dist::BucketOp bucket, llvm::StringRef kind) const;
  /// Whether a bucket's gradients add up in another type than the one in which the update reads them.
  bool isRounded(dist::BucketOp bucket) const;
  /// Whether the slot of this kind holds the rank's shard only.
  bool isSharded(llvm::StringRef kind) const;
  SlotPlace slotOf(dist::BucketOp bucket, llvm::StringRef kind);
  SlotSpec transient(mlir::RankedTensorType type, llvm::StringRef what, plan_ir::SlotClass slotClass);

  mlir::ModuleOp module;
  SlotTable &slots;
  BucketTable buckets;
  llvm::SmallVector<std::string> states; ///< of the optimizer of @update
  int64_t zero = 0;
  std::optional<uint64_t> quantum;   ///< of the last bucket that has one
  llvm::StringMap<mlir::Type> types; ///< by "bucket.kind"
};

} // namespace ztc
