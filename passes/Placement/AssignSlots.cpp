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
    // The planner's timeline is microstep, update, eval, generate, transfer: slots stand in that order too.
    for (StringRef name : {"microstep", "update", "eval", "generate"})
      if (auto function = module.lookupSymbol<func::FuncOp>(name))
        if (failed(FunctionPlacer(function, slots, buckets, options).run()))
          return signalPassFailure();
    SlotSpec staging;
    staging.name = "staging";
    staging.slotClass = plan_ir::SlotClass::Io;
    staging.type = Float32Type::get(&getContext());
    staging.elements = options.stagingBytes / 4;
    staging.reason = "buffer for checkpoints, export and gradient dumps";
    slots.bind("staging", slots.add(staging));
    slots.finish();
  }
};
} // namespace
} // namespace ztc
