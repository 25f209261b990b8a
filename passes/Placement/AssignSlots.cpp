#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Placement/FunctionPlacer.h"
#include "passes/Placement/Passes.h"

#define DEBUG_TYPE "ztc-assign-slots"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ASSIGNSLOTS
#include "passes/Placement/Passes.h.inc"

namespace {

/// A buffer smaller than this is not worth a call of the file system.
constexpr uint64_t kSmallestStagingBytes = 4096;

/// The staging buffer is used between steps, beside parameters, states and all gradients. Backward ends with the same
/// beside it and one cotangent of a layer's input, (B*S, D): a buffer of that size never makes the peak.
uint64_t stagingThatFits(ModuleOp module, uint64_t wanted) {
  auto microstep = graph::findEntry(module, graph::Entry::Microstep);
  if (!microstep)
    return wanted;
  for (auto loss : microstep.getBody().front().getOps<graph::LinearCrossEntropyOp>()) {
    auto hidden = cast<RankedTensorType>(loss.getHidden().getType());
    uint64_t bytes = hidden.getNumElements() * ((hidden.getElementTypeBitWidth() + 7) / 8);
    return std::min(wanted, std::max(bytes, kSmallestStagingBytes));
  }
  return wanted;
}

struct AssignSlots : impl::AssignSlotsBase<AssignSlots> {
  using AssignSlotsBase::AssignSlotsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    AssignOptions options;
    options.chunkBytes = chunkBytes;
    options.attentionBlock = attentionBlock;
    options.stagingBytes = stagingBytes;
    SlotTable slots(module);
    BucketSlots buckets(module, slots);
    buckets.addAll();
    // The planner's timeline is microstep, update, eval, generate, decode, decode_rows, transfer: slots stand in that
    // order too.
    using enum graph::Entry;
    for (graph::Entry entry : {Microstep, Update, Eval, Generate, Decode, DecodeRows})
      if (func::FuncOp function = graph::findEntry(module, entry))
        if (failed(FunctionPlacer(function, slots, buckets, options).run()))
          return signalPassFailure();
    SlotSpec staging;
    staging.name = "staging";
    staging.slotClass = plan_ir::SlotClass::Io;
    staging.type = Float32Type::get(&getContext());
    staging.elements = stagingThatFits(module, options.stagingBytes) / 4;
    staging.reason = "buffer for checkpoints, export and gradient dumps";
    slots.bind("staging", slots.add(staging));
    slots.finish();
  }
};
} // namespace
} // namespace ztc
