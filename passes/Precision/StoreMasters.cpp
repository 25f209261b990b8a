#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/UpdateFunction.h"
#include "passes/Precision/Passes.h"

#define DEBUG_TYPE "ztc-store-masters"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_STOREMASTERS
#include "passes/Precision/Passes.h.inc"

namespace {
/// Marks the parameters whose states are stored in blocks: all that are trained but small ones and embeddings, where
/// rare rows would share a block's scale with common ones.
void markBlockStates(func::FuncOp microstep, uint64_t fewest) {
  for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::Parameter)) {
    auto type = cast<RankedTensorType>(microstep.getArgumentTypes()[index]);
    const bool isTable = llvm::any_of(microstep.getArgument(index).getUses(), [](OpOperand &use) {
      auto embedding = dyn_cast<graph::EmbeddingOp>(use.getOwner());
      return embedding && embedding.getTable() == use.get();
    });
    if (!graph::isFrozen(microstep, index) && !isTable && uint64_t(type.getNumElements()) >= fewest)
      microstep.setArgAttr(index, graph::kBlockStates, UnitAttr::get(microstep.getContext()));
  }
}

struct StoreMasters : impl::StoreMastersBase<StoreMasters> {
  using StoreMastersBase::StoreMastersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (state != "fp32" && state != "bf16" && state != "int8") {
      module.emitError("unknown optimizer state ") << state.getValue() << ", only fp32, bf16 and int8";
      return signalPassFailure();
    }
    if (masters != "fp32" && masters != "none") {
      module.emitError("unknown masters '") << masters.getValue() << "', only fp32 and none";
      return signalPassFailure();
    }
    auto precision = module->getAttrOfType<StringAttr>(graph::kPrecision);
    if (!precision) {
      module.emitError("has no ") << graph::kPrecision << ": no precision was chosen";
      return signalPassFailure();
    }
    if (masters == "none" && precision.getValue() != "bf16") {
      module.emitError("weights can be without masters in precision bf16 only, not in ") << precision.getValue();
      return signalPassFailure();
    }
    if (precision.getValue() == "fp32" && state == "fp32")
      return;
    func::FuncOp microstep = findFunction(module, graph::Entry::Microstep),
                 update = findFunction(module, graph::Entry::Update);
    if (!microstep || !update)
      return signalPassFailure();
    OpBuilder builder(&getContext());
    if (state == "int8")
      markBlockStates(microstep, uint64_t(blockFrom));
    builder.setInsertionPointAfter(update);
    update.erase();
    buildUpdateFunction(builder, microstep,
                        {.states = state == "bf16" ? Type(builder.getBF16Type()) : Type(),
                         .inBlocks = state == "int8",
                         .hasMasters = masters == "fp32"});
  }
};
} // namespace
} // namespace ztc
