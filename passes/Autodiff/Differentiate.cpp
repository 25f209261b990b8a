#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Gradient.h"
#include "passes/Autodiff/Passes.h"
#include "runtime/Format/StepParameters.h"

#define DEBUG_TYPE "ztc-differentiate"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// step[InverseCount] as a scalar of the loss's type: the cotangent of the summed loss.
Value emitScale(OpBuilder &builder, Location loc, Value step, RankedTensorType lossType) {
  auto stepType = cast<RankedTensorType>(step.getType());
  auto element = RankedTensorType::get({1}, stepType.getElementType());
  Value field = graph::SliceOp::create(
      builder, loc, element, step, builder.getDenseI64ArrayAttr({static_cast<int64_t>(StepParameter::InverseCount)}));
  Value scale = reshapeTo(builder, loc, field, {});
  if (scale.getType() != lossType)
    scale = graph::CastOp::create(builder, loc, lossType, scale);
  return scale;
}

/// Of the losses of the sequences their sum: by the op that makes them where that can, else after it.
Value sumOfLosses(OpBuilder &builder, Value loss) {
  auto type = cast<RankedTensorType>(loss.getType());
  if (type.getRank() == 0)
    return loss;
  auto scalar = type.clone(ArrayRef<int64_t>());
  if (isa_and_present<graph::LinearCrossEntropyOp, graph::CrossEntropyOp>(loss.getDefiningOp())) {
    loss.setType(scalar);
    return loss;
  }
  graph::Expr losses(builder, loss.getLoc(), loss);
  auto at = [&](int64_t sequence) { return graph::reshape(graph::slice(losses, {sequence}, {1}), {}); };
  graph::Expr sum = at(0); // a result of the function is not an alias: the last op is an addition
  for (int64_t sequence = 1; sequence < type.getDimSize(0); ++sequence)
    sum = sum + at(sequence);
  return sum.value();
}

/// The loss and where the reverse walk starts.
struct Root {
  Value loss;
  SmallVector<Seed> seeds;
};

/// linear_cross_entropy becomes its training form, whose results are the first cotangents; any other loss is seeded
/// with the scale.
Root buildRoot(OpBuilder &builder, Value loss, Value step) {
  auto lossType = cast<RankedTensorType>(loss.getType());
  auto root = loss.getDefiningOp<graph::LinearCrossEntropyOp>();
  if (!root)
    return {loss, {{loss, emitScale(builder, loss.getLoc(), step, lossType)}}};
  builder.setInsertionPoint(root);
  Value scale = emitScale(builder, root.getLoc(), step, lossType);
  auto training = graph::LinearCrossEntropyOp::create(
      builder, root.getLoc(), lossType, root.getHidden().getType(), root.getHead().getType(), root.getHidden(),
      root.getHead(), root.getTargets(), scale, root.getWeights(), root.getLogitScaleAttr(), root.getSoftcapAttr());
  root.getLoss().replaceAllUsesWith(training.getLoss());
  root.erase();
  return {training.getLoss(),
          {{training.getHidden(), training.getDhidden()}, {training.getHead(), training.getDhead()}}};
}

/// The head's cotangent is a product and a tensor of the head's size: where nobody reads it, it is not made.
void dropUnreadHead(Block &block) {
  for (auto root : llvm::make_early_inc_range(block.getOps<graph::LinearCrossEntropyOp>())) {
    if (!root.getDhead() || !root.getDhead().use_empty())
      continue;
    OpBuilder builder(root);
    auto narrower = graph::LinearCrossEntropyOp::create(
        builder, root.getLoc(), root.getLoss().getType(), root.getDhidden().getType(), Type(), root.getHidden(),
        root.getHead(), root.getTargets(), root.getScale(), root.getWeights(), root.getLogitScaleAttr(),
        root.getSoftcapAttr());
    root.getLoss().replaceAllUsesWith(narrower.getLoss());
    root.getDhidden().replaceAllUsesWith(narrower.getDhidden());
    root.erase();
  }
}

/// A parameter on which the loss does not depend is not trained, in any function of the module.
void freezeUnused(ModuleOp module, StringRef name) {
  module.emitWarning("parameter '") << name << "' does not reach the loss: it is not trained";
  module.walk([&](func::FuncOp function) {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter))
      if (graph::argString(function, index, graph::kName) == name)
        function.setArgAttr(index, graph::kFrozen, UnitAttr::get(module.getContext()));
  });
}

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  void runOnOperation() override {
    func::FuncOp eval = findFunction(getOperation(), graph::Entry::Eval);
    if (!eval || failed(build(eval)))
      signalPassFailure();
  }

  LogicalResult build(func::FuncOp eval) {
    func::FuncOp microstep = cloneFunction(eval, graph::Entry::Microstep);
    SmallVector<unsigned> targets = graph::argumentsWithRole(microstep, graph::Role::Targets);
    if (targets.size() != 1)
      return microstep.emitOpError("has ") << targets.size() << " arguments with the role targets, expected one";
    auto stepType = RankedTensorType::get({kStepParameterCount}, Float32Type::get(&getContext()));
    Value step = insertArgument(microstep, targets[0] + 1, stepType, graph::Role::Step);

    SmallVector<unsigned> trainable = graph::argumentsWithRole(microstep, graph::Role::Parameter);
    llvm::erase_if(trainable, [&](unsigned index) { return graph::isFrozen(microstep, index); });
    SmallVector<Value> wanted;
    for (unsigned index : trainable)
      wanted.push_back(microstep.getArgument(index));

    Block &body = microstep.getBody().front();
    OpBuilder builder(body.getTerminator());
    body.getTerminator()->setOperand(0, sumOfLosses(builder, body.getTerminator()->getOperand(0)));
    Root root = buildRoot(builder, body.getTerminator()->getOperand(0), step);
    FailureOr<SmallVector<Value>> gradients = emitGradients(body, root.seeds, wanted);
    if (failed(gradients))
      return failure();

    // Residual forms may have replaced the op that defines the loss; the terminator followed.
    SmallVector<NamedResult> results{{body.getTerminator()->getOperand(0), graph::ResultKind::Loss}};
    for (auto [index, gradient] : llvm::zip(trainable, *gradients)) {
      StringRef name = graph::argString(microstep, index, graph::kName);
      if (gradient)
        results.push_back({gradient, graph::ResultKind::Gradient, name});
      else
        freezeUnused(getOperation(), name);
    }
    if (results.size() == 1)
      return microstep.emitOpError("has no parameter to train: all are frozen or do not reach the loss");
    setResults(microstep, results);
    eraseDeadOps(body);
    dropUnreadHead(body);
    return success();
  }
};
} // namespace
} // namespace ztc
