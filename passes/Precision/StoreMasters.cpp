#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Support/ArgumentAttributes.h"
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
  ArgumentAttributes marks(microstep);
  for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::Parameter)) {
    auto type = cast<RankedTensorType>(microstep.getArgumentTypes()[index]);
    const bool isTable = llvm::any_of(microstep.getArgument(index).getUses(), [](OpOperand &use) {
      auto embedding = dyn_cast<graph::EmbeddingOp>(use.getOwner());
      return embedding && embedding.getTable() == use.get();
    });
    if (!graph::isFrozen(microstep, index) && !isTable && uint64_t(type.getNumElements()) >= fewest)
      marks.set(index, graph::kBlockStates, UnitAttr::get(microstep.getContext()));
  }
  marks.store();
}

struct StoreMasters : impl::StoreMastersBase<StoreMasters> {
  using StoreMastersBase::StoreMastersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto word = module->getAttrOfType<StringAttr>(graph::kPrecision);
    const auto precision = word ? fromWord<StoragePrecision>(word.getValue()) : std::nullopt;
    if (!precision) {
      module.emitError("has no ") << graph::kPrecision << ": no precision was chosen";
      return signalPassFailure();
    }
    if (masters == MasterFormat::None && !storesBf16(*precision)) {
      module.emitError("weights can be without masters in precision bf16 and fp8 only, not in ") << word.getValue();
      return signalPassFailure();
    }
    if (precision == StoragePrecision::Fp32 && state == StateFormat::Fp32)
      return;
    func::FuncOp microstep = findFunction(module, graph::Entry::Microstep),
                 update = findFunction(module, graph::Entry::Update);
    if (!microstep || !update)
      return signalPassFailure();
    OpBuilder builder(&getContext());
    if (state == StateFormat::Int8)
      markBlockStates(microstep, uint64_t(blockFrom));
    builder.setInsertionPointAfter(update);
    update.erase();
    buildUpdateFunction(builder, microstep,
                        {.states = state == StateFormat::Bf16 ? Type(builder.getBF16Type()) : Type(),
                         .inBlocks = state == StateFormat::Int8,
                         .hasMasters = masters == MasterFormat::Fp32});
  }
};
} // namespace
} // namespace ztc
