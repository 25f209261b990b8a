#include "compiler/Target/StepWriter.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ztc {

FailureOr<plan::DataType> dataType(Operation *op, Type type) {
  if (type.isF32())
    return plan::F32;
  if (type.isF64())
    return plan::F64;
  if (type.isF16())
    return plan::F16;
  if (type.isBF16())
    return plan::BF16;
  if (type.isInteger(32))
    return plan::I32;
  if (type.isInteger(64))
    return plan::I64;
  if (type.isInteger(1))
    return plan::I1;
  if (type.isInteger(16))
    return plan::I16;
  if (type.isInteger(8))
    return plan::U8;
  if (isa<Float8E4M3FNType>(type))
    return plan::E4M3;
  if (isa<Float8E5M2Type>(type))
    return plan::E5M2;
  if (auto block = dyn_cast<graph::Block8Type>(type))
    return block.getIsSigned() ? plan::BLOCK8 : plan::UBLOCK8;
  return op->emitOpError("the plan file has no type ") << type, failure();
}

FailureOr<uint32_t> StepFields::find(const SymbolIndices &indices, FlatSymbolRefAttr symbol, StringRef what) const {
  auto found = indices.find(symbol.getAttr());
  if (found == indices.end())
    return op_->emitOpError("refers to an unknown ") << what << " " << symbol, failure();
  return found->second;
}

FailureOr<uint32_t> StepFields::kernel(FlatSymbolRefAttr symbol) const {
  if (!symbol || (!withKernels_ && !kernels_.contains(symbol.getAttr())))
    return kAbsent;
  return find(kernels_, symbol, "kernel");
}

namespace {

/// What a record has beside its op's attributes.
template <typename Op, typename Record> void finish(Op, Record &) {}

/// A plan for memory reports has no kernels; where nothing is added the variant that adds is the kernel itself.
void finish(plan_ir::LaunchOp op, plan::Launch &record) {
  if (record.kernel() == kAbsent)
    record.clear_kernel();
  if (record.kernel_add() == kAbsent)
    record.set_kernel_add(record.kernel());
  if (op.getBucketAttr()) {
    record.set_flat(true);
    record.set_flat_range(op.getWhole() ? plan::Launch::WHOLE : plan::Launch::OWN_SHARD);
  }
}
void finish(plan_ir::GemmOp, plan::Gemm &record) {
  record.set_alpha(1.0);
}

#include "compiler/Target/StepFields.inc"

} // namespace

LogicalResult writeStepKind(StepFields &fields, Operation *step, plan::Step &record) {
  return writeKind(fields, step, record);
}

} // namespace ztc
