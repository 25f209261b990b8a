#include "compiler/Support/ArgumentAttributes.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/ParameterPattern.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-mark-decay"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MARKDECAY
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct MarkDecay : impl::MarkDecayBase<MarkDecay> {
  using MarkDecayBase::MarkDecayBase;

  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    SmallVector<unsigned> undecayed = graph::argumentsWithRole(forward, graph::Role::Parameter);
    llvm::erase_if(undecayed,
                   [&](unsigned index) { return cast<ShapedType>(forward.getArgumentTypes()[index]).getRank() >= 2; });
    if (!pattern.empty()) {
      FailureOr<SmallVector<unsigned>> matches = matchParameters(forward, pattern, "no-decay");
      if (failed(matches))
        return signalPassFailure();
      undecayed.append(*matches);
    }
    ArgumentAttributes marks(forward);
    for (unsigned index : undecayed)
      marks.set(index, graph::kNoDecay, UnitAttr::get(&getContext()));
    marks.store();
  }
};
} // namespace
} // namespace ztc
