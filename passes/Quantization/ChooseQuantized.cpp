#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Adapters/WeightUses.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Quantization/Passes.h"

#define DEBUG_TYPE "ztc-choose-quantized"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_CHOOSEQUANTIZED
#include "passes/Quantization/Passes.h.inc"

namespace {

struct ChooseQuantized : impl::ChooseQuantizedBase<ChooseQuantized> {
  using ChooseQuantizedBase::ChooseQuantizedBase;

  void runOnOperation() override {
    const std::optional<graph::WeightFormat> wanted = graph::symbolizeWeightFormat(format);
    if (!wanted) {
      getOperation().emitError("there is no format '") << format.getValue() << "' of weights, only nf4 and int8";
      return signalPassFailure();
    }
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    const auto isMarked = [&](unsigned index) { return forward.getArgAttr(index, graph::kQuantized) != nullptr; };
    if (llvm::any_of(graph::argumentsWithRole(forward, graph::Role::Parameter), isMarked))
      return; // a folder in fewer bits says which weights are
    const BlockArgument head = adapters::headWeight(forward);
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      BlockArgument weight = forward.getArgument(index);
      const bool isTable = llvm::any_of(weight.getUses(), adapters::isLookup);
      if (cast<RankedTensorType>(weight.getType()).getRank() != 2 || isTable || !adapters::isFactor(weight) ||
          weight == head)
        continue;
      forward.setArgAttr(index, graph::kQuantized, graph::WeightFormatAttr::get(&getContext(), *wanted));
    }
  }
};
} // namespace
} // namespace ztc
