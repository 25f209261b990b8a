#include "passes/Fusion/Passes.h"
#include "passes/Fusion/WrittenMatrix.h"

#define DEBUG_TYPE "ztc-fuse-amax"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSEAMAX
#include "passes/Fusion/Passes.h.inc"

namespace {

/// Gives `quantize` the absolute maxima of its matrix where a group can.
void fuseAmax(graph::QuantizeFp8Op quantize) {
  auto written = dyn_cast<OpResult>(withoutReshapes(quantize.getX()));
  auto fusion = written ? dyn_cast<graph::FusionOp>(written.getOwner()) : graph::FusionOp();
  if (!fusion)
    return;
  Operation *yield = fusion.getBody().front().getTerminator();
  SmallVector<Value> parts = partsOf(withoutReshapes(yield->getOperand(written.getResultNumber())));
  if (parts.empty())
    return;
  OpBuilder builder(yield);
  graph::FusionOp wider = withResult(fusion, amaxOf(parts, builder));
  quantize.getAmaxMutable().assign(wider.getOutputs().back());
}

struct FuseAmax : impl::FuseAmaxBase<FuseAmax> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto quantize : llvm::make_early_inc_range(function.getBody().front().getOps<graph::QuantizeFp8Op>()))
        if (!quantize.getAmax()) {
          fuseAmax(quantize);
          isChanged = true;
        }
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace ztc
