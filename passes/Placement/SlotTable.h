// The slots of a module while they are assigned.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <optional>
#include <string>

namespace ztc {

/// What a new slot is. Sizes: `elements` of `type`, as `kind` says.
struct SlotSpec {
  std::string name; ///< made unique by a number
  plan_ir::SlotClass slotClass = plan_ir::SlotClass::Activations;
  plan_ir::SizeKind kind = plan_ir::SizeKind::Constant;
  mlir::Type type; ///< element type
  uint64_t elements = 0;
  std::optional<uint64_t> gpuElements; ///< on a GPU, in place of what `kind` makes of `elements`
  llvm::SmallVector<int64_t> shape;    ///< of the value that the slot is for; empty: several, or none
  int64_t layer = -1;
  std::string reason;
  bool persistent = false, accumulator = false;
  bool onlyIfSeveralRanks = false;              ///< zero bytes at one rank
  std::optional<uint64_t> quantum;              ///< of the bucket that the slot holds, where it has one of its own
  mlir::FlatSymbolRefAttr sameAsAtOneRank;      ///< the slot whose storage this one is at one rank; null: none
  mlir::FlatSymbolRefAttr sameAsIfAccumulating; ///< the accumulator in which this one lies where M > 1; null: none
};

/// Slot and offset in bytes, or the rank's own shard of a slot that holds a whole bucket.
struct SlotPlace {
  mlir::FlatSymbolRefAttr slot;
  uint64_t offset = 0;
  bool ownShard = false;
  bool operator==(const SlotPlace &) const = default;
  mlir::Attribute attribute() const { return plan_ir::PlaceAttr::get(slot.getContext(), slot, offset, ownShard); }
};

/// Creates plan.slot ops, in order, after what the module starts with.
class SlotTable {
public:
  explicit SlotTable(mlir::ModuleOp module);

  SlotPlace add(const SlotSpec &spec);
  /// The one slot of that name, made at the first call: tokens, step parameters and so on.
  SlotPlace shared(const SlotSpec &spec);
  /// The persistent slot of a constant's bytes; equal constants share it.
  SlotPlace constant(mlir::ElementsAttr data, llvm::StringRef name);
  /// Notes that the trainer finds this slot under a name of plan.proto's Bindings.
  void bind(llvm::StringRef name, SlotPlace place);
  /// What checkpoints know the records of delayed scaling's absolute maxima by: an array of names for each.
  void nameScaledMatrices(mlir::ArrayAttr names);
  /// Writes plan.bindings.
  void finish();

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  llvm::StringMap<unsigned> names;
  llvm::StringMap<SlotPlace> sharedSlots;
  llvm::DenseMap<mlir::Attribute, SlotPlace> constants;
  llvm::SmallVector<mlir::NamedAttribute> bindings;
};

} // namespace ztc
