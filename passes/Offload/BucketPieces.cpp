#include "passes/Offload/BucketPieces.h"
#include "runtime/Core/Sizes.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ztc {

bool isOfBucket(plan_ir::SlotOp slot, plan_ir::BucketOp bucket) {
  return slot.getElements() == bucket.getElements() &&
         (slot.getSizeKind() == plan_ir::SizeKind::Shard || slot.getSizeKind() == plan_ir::SizeKind::Full);
}

std::string windowKindOf(plan_ir::SlotOp slot) {
  std::string type;
  llvm::raw_string_ostream(type) << slot.getType();
  return (slot.getSymName().rsplit('.').second + " " + type).str();
}

plan_ir::SlotOp makeWindow(OpBuilder &builder, ModuleOp module, plan_ir::SlotOp slot, const Twine &prefix,
                           uint64_t elements, StringRef reason) {
  const uint64_t perRecord = std::max<uint64_t>(1, slot.getBlockElements().value_or(0));
  // 4096 / gcd(4096, record) records are a multiple of a block of a disk; of 260 bytes 1024.
  const uint64_t records = roundUp(llvm::divideCeil(elements, perRecord), perRecord > 1 ? 1024 : kWindowUnit);
  const std::string first = (prefix + "." + slot.getSymName().rsplit('.').second).str();
  std::string name = first;
  for (unsigned count = 1; module.lookupSymbol(name); ++count)
    name = first + "." + std::to_string(count);
  return plan_ir::SlotOp::create(builder, slot.getLoc(), name, plan_ir::SlotClass::Workspace,
                                 plan_ir::SizeKind::Constant, records, IntegerAttr(), slot.getElementBytes(), false,
                                 false, slot.getType(), ArrayRef<int64_t>{}, int64_t(-1), reason, false, false,
                                 FlatSymbolRefAttr(), FlatSymbolRefAttr(), IntegerAttr(), IntegerAttr());
}

} // namespace ztc
