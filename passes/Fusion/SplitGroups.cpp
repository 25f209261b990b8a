#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/Group.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-split-groups"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_SPLITGROUPS
#include "passes/Fusion/Passes.h.inc"

namespace {

/// Whether a value is a bucket or a piece of one whose length is known at run time only.
bool hasBucketLayout(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return !type || type.getEncoding() || !type.hasStaticShape();
}

/// Writes the body of `fusion` out before it; what computes becomes a group, the rest (constants, reshapes) stands
/// free.
void split(graph::FusionOp fusion) {
  OpBuilder builder(fusion);
  Attribute again = fusion->getAttr(kRecomputation);
  IRMapping mapping;
  Block &body = fusion.getBody().front();
  mapping.map(body.getArguments(), fusion.getInputs());
  SmallVector<Operation *> computing;
  for (Operation &op : body.without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    copy->setLoc(fusion.getLoc());
    if (!isFree(copy))
      computing.push_back(copy);
  }
  for (auto [result, value] : llvm::zip_equal(fusion.getOutputs(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  fusion.erase();
  for (Operation *op : computing) {
    graph::FusionOp single = groupOps(op, op->getName().stripDialect(), graph::FusionKind::Split);
    if (again)
      single->setAttr(kRecomputation, again);
  }
}

struct SplitGroups : impl::SplitGroupsBase<SplitGroups> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      for (auto fusion : llvm::make_early_inc_range(block.getOps<graph::FusionOp>()))
        if (llvm::none_of(fusion.getInputs(), hasBucketLayout) && llvm::none_of(fusion.getOutputs(), hasBucketLayout))
          split(fusion);
      eraseDeadOps(block);
    }
  }
};
} // namespace
} // namespace ztc
