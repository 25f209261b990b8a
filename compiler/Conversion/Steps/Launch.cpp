// A group: launches of its kernels.
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ztc {
using plan_ir::Access;
using plan_ir::Accumulate;
namespace {

/// Bytes that a group reads of its operand `index`, where it takes slices of it and nothing else; else 0. Slices that
/// lie over one another count for each.
int64_t slicedBytes(graph::FusionOp fusion, unsigned index) {
  Value argument = fusion.getBody().getArgument(index);
  llvm::SmallSetVector<std::pair<Attribute, Type>, 4> slices;
  for (Operation *user : argument.getUsers()) {
    auto slice = dyn_cast<graph::SliceOp>(user);
    if (!slice)
      return 0;
    slices.insert({slice.getOffsetsAttr(), slice.getType()});
  }
  int64_t bytes = 0;
  for (const auto &[offsets, type] : slices) {
    auto tensor = cast<RankedTensorType>(type);
    if (!tensor.hasStaticShape())
      return 0;
    bytes += tensor.getNumElements() * int64_t(llvm::divideCeil(tensor.getElementTypeBitWidth(), 8));
  }
  return bytes;
}

struct GroupSteps : StepSourceOpInterface::ExternalModel<GroupSteps, graph::FusionOp> {
  LogicalResult emitSteps(Operation *op, StepEmitter &emitter) const {
    auto fusion = cast<graph::FusionOp>(op);
    auto launches = op->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
    StringRef why = graph::reasonOf(fusion.getKind());
    if (!launches) {
      // A plan for memory reports: no kernels were selected.
      StepHead head = emitter.describe(op, fusion.getName(), why);
      SmallVector<Attribute> slots;
      for (Value value : op->getOperands())
        slots.push_back(emitter.operand(value, Access::Read));
      for (OpResult value : op->getResults())
        slots.push_back(emitter.result(value));
      auto launch = emitter.begin<plan_ir::LaunchOp>(head, slots);
      launch.accumulate = emitter.overwrite();
      launch.extent = emitter.number(0);
      launch.grain = emitter.number(1);
      launch.flat_block = emitter.number(0);
      launch.scalars = emitter.builder().getDenseI64ArrayAttr({});
      return emitter.create<plan_ir::LaunchOp>(op, launch);
    }
    for (auto [index, spec] : llvm::enumerate(launches.getAsRange<kernel::ScheduleAttr>())) {
      std::string name = fusion.getName().str();
      if (launches.size() > 1)
        name += spec.getForm() == kernel::Form::Fold ? " fold" : " rows";
      StepHead head = emitter.describe(
          op, name, (kernel::stringifyForm(spec.getForm()) + " kernel" + (why.empty() ? "" : ": ") + why).str());
      if (index)
        head.flops = emitter.number(0);
      SmallVector<Attribute> slots;
      SmallVector<int64_t> readBytes;
      auto mode = emitter.overwrite();
      bool first = true;
      ArrayRef<int64_t> buffers = spec.getBuffers().asArrayRef();
      for (; buffers.size() >= 3; buffers = buffers.drop_front(3)) {
        bool written = buffers[2];
        readBytes.push_back(buffers[0] == 0 ? slicedBytes(fusion, buffers[1]) : 0);
        if (buffers[0] == 0) {
          slots.push_back(emitter.operand(op->getOperand(buffers[1]), Access::Read));
        } else if (buffers[0] == 2) {
          slots.push_back(emitter.scratch(op, buffers[1], written ? Access::Write : Access::Read));
        } else if (!written) {
          slots.push_back(emitter.operand(op->getResult(buffers[1]), Access::Read));
        } else {
          slots.push_back(emitter.result(op->getResult(buffers[1])));
          plan_ir::AccumulateAttr own = emitter.modeOf(op->getResult(buffers[1]));
          if (!first && own != mode)
            return op->emitOpError("one kernel adds to one of its results and overwrites another");
          mode = own;
          first = false;
        }
      }
      FlatSymbolRefAttr add;
      if (mode.getValue() != Accumulate::Overwrite) {
        if (!spec.getHasAdd())
          return op->emitOpError("no kernel variant that adds to its results: ") << spec.getKernel();
        add = FlatSymbolRefAttr::get(op->getContext(), (spec.getKernel().getValue() + kernel::kAddSuffix).str());
      }
      FlatSymbolRefAttr bucket = spec.getFlatBlock() ? emitter.bucketOf(op) : FlatSymbolRefAttr();
      Type flat = emitter.bucketType(op);
      // Of an open length the kernel's range is cut into blocks at run time, unless it has but one unit.
      int64_t extent = bucket && !flat ? 0 : spec.getExtent();
      auto launch = emitter.begin<plan_ir::LaunchOp>(head, slots);
      launch.kernel = spec.getKernel();
      launch.accumulate = mode;
      launch.kernel_add = add;
      launch.extent = emitter.number(extent);
      launch.grain = emitter.number(spec.getGrain());
      launch.bucket = bucket;
      launch.whole = emitter.flag(bucket && !(flat && dist::isShard(flat)));
      launch.flat_block = emitter.number(bucket ? spec.getFlatBlock() : 0);
      launch.scalars = bucket ? emitter.builder().getDenseI64ArrayAttr({}) : spec.getScalars();
      if (llvm::any_of(readBytes, [](int64_t bytes) { return bytes > 0; }))
        launch.read_bytes = emitter.builder().getDenseI64ArrayAttr(readBytes);
      (void)emitter.create<plan_ir::LaunchOp>(op, launch);
    }
    return success();
  }
};

} // namespace

void registerLaunchStep(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, graph::GraphDialect *) { graph::FusionOp::attachInterface<GroupSteps>(*context); });
}

} // namespace ztc
