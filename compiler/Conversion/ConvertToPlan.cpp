#include "compiler/Analysis/StepKinds.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "llvm/ADT/StringMap.h"

#define DEBUG_TYPE "ztc-convert-to-plan"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_CONVERTTOPLAN
#include "compiler/Conversion/Passes.h.inc"

void populatePlanPipeline(OpPassManager &pm) {
  pm.addPass(createConvertToPlan());
}

namespace {

/// Programs in the order of the planner's timeline.
constexpr graph::Entry kPrograms[] = {graph::Entry::Microstep, graph::Entry::Update, graph::Entry::Eval,
                                      graph::Entry::Generate,  graph::Entry::Decode, graph::Entry::DecodeRows};

struct ConvertToPlan : impl::ConvertToPlanBase<ConvertToPlan> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ConvertToPlanBase::getDependentDialects(registry);
    registerStepSources(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(&getContext());
    int64_t microstepFlops = 0, events = 0;
    const BucketTable buckets(module);
    std::vector<std::string> remarks;
    for (graph::Entry entry : kPrograms) {
      func::FuncOp function = graph::findEntry(module, entry);
      if (!function)
        continue;
      builder.setInsertionPoint(function);
      auto program =
          plan_ir::ProgramOp::create(builder, function.getLoc(), builder.getStringAttr(graph::stringifyEntry(entry)));
      OpBuilder steps = OpBuilder::atBlockEnd(&program.getBody().emplaceBlock());
      StepEmitter emitter(function, steps, buckets, events);
      if (failed(emitter.run()))
        return signalPassFailure();
      if (entry == graph::Entry::Microstep)
        microstepFlops = emitter.flops();
      remarks.insert(remarks.end(), emitter.remarks().begin(), emitter.remarks().end());
      program->moveBefore(module.getBody(), module.getBody()->end());
      function.erase();
    }
    if (failed(convertBuckets(module)))
      return signalPassFailure();
    builder.setInsertionPointToEnd(module.getBody());
    emitTransfer(module, builder);
    if (auto reason = module->getAttrOfType<StringAttr>(graph::kNoCache))
      remarks.push_back("generation has no key/value cache: " + reason.str());
    module->removeAttr(graph::kNoCache);
    for (const std::string &text : remarks)
      plan_ir::RemarkOp::create(builder, module.getLoc(), builder.getStringAttr(text));
    addModel(module, microstepFlops);
    for (StringRef name : {graph::kBatch, graph::kSequence, graph::kVocabulary, graph::kPositionLimit, graph::kLayers})
      module->removeAttr(name);
    module->removeAttr("graph.model");
    module->removeAttr(dist::kZero);
    module->removeAttr(kPrefetch);
    for (auto mesh : llvm::make_early_inc_range(module.getOps<dist::MeshOp>()))
      mesh.erase();
  }

  using Slots = llvm::StringMap<plan_ir::SlotOp>; ///< by name

  static FlatSymbolRefAttr slotOf(const Slots &slots, StringRef bucket, StringRef kind) {
    plan_ir::SlotOp slot = slots.lookup((bucket + "." + kind).str());
    return slot ? FlatSymbolRefAttr::get(slot.getSymNameAttr()) : FlatSymbolRefAttr();
  }

  /// The optimizer's states of a bucket, in the order of its rule; none where the module has no update.
  static ArrayAttr stateSlots(ModuleOp module, const Slots &slots, StringRef bucket) {
    SmallVector<Attribute> states;
    for (const graph::OptimizerState &state : graph::statesOf(module))
      if (FlatSymbolRefAttr slot = slotOf(slots, bucket, state.name))
        states.push_back(
            plan_ir::StateAttr::get(module.getContext(), StringAttr::get(module.getContext(), state.name), slot));
    return ArrayAttr::get(module.getContext(), states);
  }

  LogicalResult convertBuckets(ModuleOp module) {
    Slots slots;
    for (auto slot : module.getOps<plan_ir::SlotOp>())
      slots[slot.getSymName()] = slot;
    for (auto bucket : llvm::make_early_inc_range(module.getOps<dist::BucketOp>())) {
      OpBuilder builder(bucket);
      StringRef name = bucket.getSymName();
      FlatSymbolRefAttr parameterSlot = slotOf(slots, name, "parameter");
      if (!parameterSlot)
        return bucket.emitOpError("has no slot for its parameters; run ztc-assign-slots first");
      plan_ir::SlotOp slot = slots.lookup(parameterSlot.getValue());
      bool trainable = bucket.getTrainable();
      int64_t decayed = bucket.getDecayed();
      auto record = plan_ir::BucketOp::create(
          builder, bucket.getLoc(), bucket.getSymNameAttr(), bucket.getElementsAttr(), bucket.getDecayedAttr(),
          bucket.getTrainableAttr(), parameterSlot, slotOf(slots, name, "gradient"), slotOf(slots, name, "master"),
          stateSlots(module, slots, name), bucket.getQuantumAttr());
      for (Attribute entry : bucket.getParameters()) {
        dist::BucketParameter parameter = dist::readBucketParameter(entry);
        plan_ir::ParameterOp::create(
            builder, bucket.getLoc(), parameter.name, parameter.tied ? parameter.tied : builder.getArrayAttr({}),
            builder.getDenseI64ArrayAttr(parameter.shape), slot.getTypeAttr(),
            FlatSymbolRefAttr::get(record.getSymNameAttr()), builder.getI64IntegerAttr(parameter.offset),
            parameter.offset < decayed ? builder.getUnitAttr() : UnitAttr(),
            trainable ? builder.getUnitAttr() : UnitAttr(), parameter.source);
      }
      bucket.erase();
    }
    return success();
  }

  static void addModel(ModuleOp module, int64_t microstepFlops) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    auto number = [&](StringRef name) {
      auto attribute = module->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    int64_t parameters = 0;
    for (auto parameter : module.getOps<plan_ir::ParameterOp>()) {
      int64_t elements = 1;
      auto quantized = parameter.getSource().value_or(DictionaryAttr());
      auto shape = quantized ? quantized.getAs<DenseI64ArrayAttr>("quantized_shape") : DenseI64ArrayAttr();
      for (int64_t size : shape ? shape.asArrayRef() : parameter.getShape())
        elements *= size;
      parameters += elements;
    }
    auto name = module->getAttrOfType<StringAttr>("graph.model");
    int64_t tokens = number(graph::kBatch) * number(graph::kSequence);
    auto i64 = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
    plan_ir::ModelOp::create(builder, module.getLoc(), name ? name : builder.getStringAttr("model"),
                             i64(number(graph::kBatch)), i64(number(graph::kSequence)), i64(number(graph::kVocabulary)),
                             i64(number(graph::kPositionLimit)), i64(number(graph::kLayers)), i64(parameters),
                             builder.getF64FloatAttr(tokens ? double(microstepFlops) / tokens : 0.0));
  }
};
} // namespace
} // namespace ztc
