#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/ParameterPattern.h"
#include "passes/Autodiff/Passes.h"
#include <cmath>

#define DEBUG_TYPE "ztc-mark-rates"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MARKRATES
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct MarkRates : impl::MarkRatesBase<MarkRates> {
  using MarkRatesBase::MarkRatesBase;

  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    for (const std::string &rate : rates)
      if (failed(mark(forward, rate)))
        return signalPassFailure();
  }

  LogicalResult mark(func::FuncOp forward, StringRef rate) {
    // An expression may have an = of its own.
    const auto [pattern, number] = rate.rsplit('=');
    double factor = 0;
    if (pattern.empty() || number.getAsDouble(factor) || !std::isfinite(factor) || factor <= 0)
      return emitError(forward.getLoc(), "lr-of=") << rate << ": expected REGEX=FACTOR with a positive factor";
    FailureOr<SmallVector<unsigned>> matches = matchParameters(forward, pattern, "lr-of");
    if (failed(matches))
      return failure();
    llvm::erase_if(*matches, [&](unsigned index) { return graph::isFrozen(forward, index); });
    if (matches->empty())
      return emitError(forward.getLoc(), "the lr-of pattern '") << pattern << "' matches frozen parameters alone";
    Builder builder(&getContext());
    ArgumentAttributes marks(forward);
    for (unsigned index : *matches) {
      if (forward.getArgAttr(index, graph::kRate))
        return emitError(forward.getLoc(), "the lr-of pattern '")
               << pattern << "' matches '" << graph::argString(forward, index, graph::kName)
               << "', and so does one before it";
      marks.set(index, graph::kRate, builder.getF64FloatAttr(factor));
    }
    marks.store();
    return success();
  }
};
} // namespace
} // namespace ztc
