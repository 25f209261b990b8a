#include "compiler/Support/ArgumentAttributes.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/ParameterPattern.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-freeze-parameters"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FREEZEPARAMETERS
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct FreezeParameters : impl::FreezeParametersBase<FreezeParameters> {
  using FreezeParametersBase::FreezeParametersBase;

  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    if (pattern.empty())
      return;
    FailureOr<SmallVector<unsigned>> matches = matchParameters(forward, pattern, "freeze");
    if (failed(matches))
      return signalPassFailure();
    ArgumentAttributes marks(forward);
    for (unsigned index : *matches)
      marks.set(index, graph::kFrozen, UnitAttr::get(&getContext()));
    marks.store();
  }
};
} // namespace
} // namespace ztc
