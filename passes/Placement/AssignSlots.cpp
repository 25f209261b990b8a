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
    addBuckets(module, slots);
    // The planner's timeline is microstep, update, eval, generate, transfer: slots stand in that order too.
    for (StringRef name : {"microstep", "update", "eval", "generate"})
      if (auto function = module.lookupSymbol<func::FuncOp>(name))
        if (failed(FunctionPlacer(function, slots, options).run()))
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

  /// Parameters of all buckets first, then their states: frozen ones too, which @update does not mention.
  void addBuckets(ModuleOp module, SlotTable &slots) {
    for (StringRef kind : {"parameter", "exp_avg", "exp_avg_sq", "gradient"})
      for (auto bucket : module.getOps<dist::BucketOp>())
        if (kind == "parameter" || bucket.getTrainable()) {
          // All buckets of a module have one type until `precision` says otherwise.
          auto type = RankedTensorType::get({int64_t(bucket.getElements())}, Float32Type::get(&getContext()));
          (void)slots.shared(bucketSlot(bucket.getSymName(), kind, type));
        }
  }
};
} // namespace
} // namespace ztc
