// Pieces of buckets that are updated, and the windows of fixed size that they go through.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/Twine.h"

namespace ztc {

/// So many elements of any type, also in records of 256, are whole blocks of a disk: pieces are multiples of it.
inline constexpr uint64_t kPieceUnit = uint64_t(1) << 18;
/// A window holds a multiple of so many elements.
inline constexpr uint64_t kWindowUnit = 4096;

/// Whether a slot holds the bucket, all of it or the rank's shard.
bool isOfBucket(plan_ir::SlotOp slot, plan_ir::BucketOp bucket);

/// A window serves all slots of a kind: "exp_avg f32" of "block0.exp_avg", with the type, which may differ by bucket.
std::string windowKindOf(plan_ir::SlotOp slot);

/// A slot `PREFIX.exp_avg` on the device, for pieces of up to `elements` elements of slots like `slot`; made where the
/// builder stands.
plan_ir::SlotOp makeWindow(mlir::OpBuilder &builder, mlir::ModuleOp module, plan_ir::SlotOp slot,
                           const llvm::Twine &prefix, uint64_t elements, llvm::StringRef reason);

} // namespace ztc
