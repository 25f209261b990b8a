#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
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
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    const auto isMarked = [&](unsigned index) { return forward.getArgAttr(index, graph::kQuantized) != nullptr; };
    // A folder in fewer bits says which weights are.
    if (llvm::none_of(graph::argumentsWithRole(forward, graph::Role::Parameter), isMarked))
      mark(forward);
    ArgumentAttributes marks(forward);
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      const auto products = isMarked(index) ? productsOf(forward.getArgument(index)) : std::nullopt;
      if (products && !products->front().isOutputFirst)
        marks.set(index, graph::kQuantizedTransposed, UnitAttr::get(&getContext()));
    }
    marks.store();
  }

private:
  /// Of a stack, those of one of its matrices: all are read alike.
  static std::optional<SmallVector<adapters::WeightProduct>> productsOf(Value weight) {
    if (cast<RankedTensorType>(weight.getType()).getRank() == 2)
      return adapters::productsOf(weight);
    for (Operation *user : weight.getUsers())
      if (auto one = dyn_cast<graph::SliceOp>(user))
        for (Operation *reader : one.getY().getUsers())
          if (auto matrix = dyn_cast<graph::ReshapeOp>(reader))
            if (auto products = adapters::productsOf(matrix.getResult()))
              return products;
    return std::nullopt;
  }

  void mark(func::FuncOp forward) {
    const BlockArgument head = adapters::headWeight(forward);
    ArgumentAttributes marks(forward);
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      BlockArgument weight = forward.getArgument(index);
      const bool isTable = llvm::any_of(weight.getUses(), adapters::isLookup);
      const int64_t rank = cast<RankedTensorType>(weight.getType()).getRank();
      const bool isStack = rank == 3 && format == graph::WeightFormat::Mxfp4;
      if ((rank != 2 && !isStack) || isTable || !adapters::isFactor(weight) || weight == head)
        continue;
      marks.set(index, graph::kQuantized, graph::WeightFormatAttr::get(&getContext(), format));
    }
    marks.store();
  }
};
} // namespace
} // namespace ztc
