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
struct StoreMasters : impl::StoreMastersBase<StoreMasters> {
  using StoreMastersBase::StoreMastersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (state != "fp32" && state != "bf16") {
      module.emitError("there is no optimizer state ") << state.getValue() << ", only fp32 and bf16";
      return signalPassFailure();
    }
    if (masters != "fp32" && masters != "none") {
      module.emitError("there are no masters '") << masters.getValue() << "', only fp32 and none";
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
    builder.setInsertionPointAfter(update);
    update.erase();
    buildUpdateFunction(
        builder, microstep,
        {.states = state == "bf16" ? Type(builder.getBF16Type()) : Type(), .hasMasters = masters == "fp32"});
  }
};
} // namespace
} // namespace ztc
