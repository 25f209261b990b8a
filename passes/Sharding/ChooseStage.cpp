#include "compiler/Analysis/Stages.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "passes/Sharding/Passes.h"

#define DEBUG_TYPE "ztc-choose-stage"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_CHOOSESTAGE
#include "passes/Sharding/Passes.h.inc"

namespace {

struct ChooseStage : impl::ChooseStageBase<ChooseStage> {
  using ChooseStageBase::ChooseStageBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (zero > dist::kLastZeroStage) {
      module.emitError("there is no ZeRO stage ") << zero.getValue() << ", only 0 to " << dist::kLastZeroStage;
      return signalPassFailure();
    }
    if (module.lookupSymbol(dist::kMesh)) {
      module.emitError("has a mesh already: the stage is chosen once");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, module.getLoc(), builder.getStringAttr(dist::kMesh),
                         builder.getStrArrayAttr({dist::kDataAxis}));
    module->setAttr(dist::kZero, builder.getI64IntegerAttr(zero));
  }
};
} // namespace
} // namespace ztc
