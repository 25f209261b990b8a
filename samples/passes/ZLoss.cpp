// A rewrite: adds weight * sum of logsumexp(logits)^2 over the counted rows to the loss, which keeps the logits from
// drifting (the z-loss of Chowdhery et al. 2022, section 5). It runs where @eval has its loss and nothing is
// differentiated yet: the gradient follows.
//   ztc compile MODEL --load-pass-plugin=ZLoss.so --pass-option=z-loss.weight=1e-4 -o plan.bin
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace ztc::graph;

namespace {

struct ZLoss : mlir::PassWrapper<ZLoss, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ZLoss)
  ZLoss() = default;
  ZLoss(const ZLoss &other) : PassWrapper(other) {} // options are not copied with a pass, their values are
  llvm::StringRef getArgument() const override { return "z-loss"; }
  llvm::StringRef getDescription() const override { return "adds the square of logsumexp to the loss"; }

  void runOnOperation() override {
    auto eval = ztc::graph::findEntry(getOperation(), ztc::graph::Entry::Eval);
    mlir::Operation *end = eval ? eval.getBody().front().getTerminator() : nullptr;
    auto root = end && end->getNumOperands() ? end->getOperand(0).getDefiningOp<LinearCrossEntropyOp>() : nullptr;
    if (!root || root.getScale()) {
      getOperation().emitError("@eval does not return the loss of a head's product");
      return signalPassFailure();
    }
    mlir::OpBuilder builder(root);
    mlir::Location loc = root.getLoc();
    // The logits (T, V), as the loss sees them.
    Expr hidden(builder, loc, root.getHidden());
    Expr logits = matmul(hidden, hidden.with(root.getHead()), false, true);
    if (double scale = root.getLogitScale().convertToDouble(); scale != 1)
      logits = logits * scale;
    if (double cap = root.getSoftcap().convertToDouble(); cap != 0)
      logits = tanh(logits / cap) * cap;
    Expr loss = hidden.with(CrossEntropyOp::create(builder, loc, root.getLoss().getType(), logits.value(),
                                                   root.getTargets(), root.getWeights())
                                .getLoss());

    Expr largest = reduceMaxLast(logits);
    Expr z = largest + log(reduceSumLast(exp(logits - broadcastLike(largest, logits)))); // (T, 1)
    Expr targets = reshape(hidden.with(root.getTargets()), {logits.dim(0), 1});
    Expr counted = select(targets >= zeroLike(targets), z * z, zeroLike(z));
    if (root.getWeights())
      counted = counted * castTo(reshape(hidden.with(root.getWeights()), {logits.dim(0), 1}), z.elementType());
    // One loss, or one for each sequence.
    auto type = mlir::cast<mlir::RankedTensorType>(root.getLoss().getType());
    int64_t sequences = type.getNumElements();
    Expr sum = reshape(reduceSumLast(reshape(counted, {sequences, logits.dim(0) / sequences})), type.getShape());
    root.getLoss().replaceAllUsesWith((loss + sum * double(weight)).value());
    root.erase();
    mlir::remark::passed(loc, mlir::remark::RemarkOpts::name("added").category(getArgument()))
        << "the loss has a term of the logits' size";
  }

  Option<double> weight{*this, "weight", llvm::cl::desc("of the term, in units of the loss"), llvm::cl::init(1e-4)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "z-loss", "1.0", [] { mlir::PassRegistration<ZLoss>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  // It changes what the step computes, on purpose: from here on the changed step is the reference of --verify.
  hooks.afterLoss([] { return std::make_unique<ZLoss>(); }, ztc::Keeps::Changes);
}
