#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include <cmath>

#define DEBUG_TYPE "ztc-mark-matrices"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MARKMATRICES
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct MarkMatrices : impl::MarkMatricesBase<MarkMatrices> {
  using MarkMatricesBase::MarkMatricesBase;

  void runOnOperation() override {
    func::FuncOp forward = findFunction(getOperation(), graph::Entry::Forward);
    if (!forward)
      return signalPassFailure();
    if (!fromWord<AdjustLr>(adjust.getValue())) {
      emitError(forward.getLoc(), "adjust=") << adjust.getValue() << ": expected match_rms_adamw or original";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    ArgumentAttributes marks(forward);
    bool any = false;
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter)) {
      if (!isMatrixOfBlock(forward, index))
        continue;
      marks.set(index, graph::kChangeFactor, builder.getF64FloatAttr(changeFactor(forward, index)));
      any = true;
    }
    marks.store();
    if (any)
      return;
    emitError(forward.getLoc(),
              "no parameter that is trained is a matrix of a transformer block: there is nothing that "
              "muon updates; use another optimizer");
    signalPassFailure();
  }

  /// Two dimensions, or a stack of matrices as of experts; neither a table that is looked up by rows nor
  /// a stack of biases is one.
  static bool isMatrixOfBlock(func::FuncOp forward, unsigned index) {
    auto type = cast<RankedTensorType>(forward.getArgumentTypes()[index]);
    if (graph::isFrozen(forward, index) || !forward.getArgAttr(index, graph::kLayer) ||
        !isa<FloatType>(type.getElementType()) || graph::argString(forward, index, graph::kName).ends_with("bias"))
      return false;
    const bool isStack = type.getRank() == 3 && type.getDimSize(1) > 1 && type.getDimSize(2) > 1;
    return (type.getRank() == 2 || isStack) && llvm::none_of(forward.getArgument(index).getUses(), [](OpOperand &use) {
             auto embedding = dyn_cast<graph::EmbeddingOp>(use.getOwner());
             return embedding && embedding.getTable() == use.get();
           });
  }

  /// Of a matrix of A rows and B columns, as torch.optim.Muon's adjust_lr_fn; the graph has a layer's matrix as
  /// (outputs, inputs), however a file stores it.
  double changeFactor(func::FuncOp forward, unsigned index) const {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(forward.getArgumentTypes()[index]).getShape().take_back(2);
    const double rows = double(shape[0]), columns = double(shape[1]);
    return fromWord<AdjustLr>(adjust.getValue()) == AdjustLr::Original ? std::sqrt(std::max(1.0, rows / columns))
                                                                       : 0.2 * std::sqrt(std::max(rows, columns));
  }
};
} // namespace
} // namespace ztc
