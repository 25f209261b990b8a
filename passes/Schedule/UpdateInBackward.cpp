#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Schedule/Passes.h"
#include "llvm/ADT/StringMap.h"

#define DEBUG_TYPE "ztc-update-in-backward"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_UPDATEINBACKWARD
#include "passes/Schedule/Passes.h.inc"

namespace {

/// Joins @update to @microstep of one module.
class UpdateJoiner {
public:
  UpdateJoiner(func::FuncOp microstep, func::FuncOp update)
      : microstep(microstep), update(update), terminator(microstep.getBody().front().getTerminator()) {}

  LogicalResult run() {
    if (failed(mapArguments()))
      return failure();
    dropGradients();
    takeOps();
    update.erase();
    return success();
  }

private:
  /// Of what @update takes the gradients are what has been reduced; states and masters become arguments of @microstep.
  LogicalResult mapArguments() {
    llvm::StringMap<Value> reduced, parameters;
    for (auto scatter : microstep.getBody().front().getOps<dist::ReduceScatterOp>())
      reduced[dist::bucketOf(scatter.getFull().getType()).getValue()] = scatter.getY();
    for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::ParameterBucket))
      parameters[bucketOf(microstep, index)] = microstep.getArgument(index);
    const SmallVector<unsigned> steps = graph::argumentsWithRole(microstep, graph::Role::Step);
    for (unsigned index = 0; index < update.getNumArguments(); ++index) {
      BlockArgument argument = update.getArgument(index);
      const std::optional<graph::Role> role = graph::roleOf(update, index);
      Value value;
      if (role == graph::Role::Step)
        value = steps.size() == 1 ? Value(microstep.getArgument(steps.front())) : Value();
      else if (role == graph::Role::GradientBucket)
        value = reduced.lookup(bucketOf(update, index));
      else if (role == graph::Role::ParameterBucket)
        value = parameters.lookup(bucketOf(update, index));
      else
        value = addArgument(index);
      if (!value || value.getType() != argument.getType())
        return update.emitOpError("argument ") << index << ", " << argument.getType()
                                               << ", is nothing that @microstep has: updates in the backward need "
                                                  "gradients that are reduced (a ZeRO stage)";
      mapping.map(argument, value);
    }
    return success();
  }

  static StringRef bucketOf(func::FuncOp function, unsigned index) {
    auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
    return bucket ? bucket.getValue() : StringRef();
  }

  Value addArgument(unsigned index) {
    const unsigned position = microstep.getNumArguments();
    (void)microstep.insertArgument(position, update.getArgumentTypes()[index], update.getArgAttrDict(index),
                                   update.getArgument(index).getLoc());
    return microstep.getArgument(position);
  }

  /// A step is one micro-step: no gradient enters the function to be added to, and none leaves it.
  void dropGradients() {
    llvm::BitVector results(microstep.getNumResults()), arguments(microstep.getNumArguments());
    for (unsigned index = 0; index < microstep.getNumResults(); ++index)
      if (const auto kind = graph::resultOf(microstep, index);
          kind == graph::ResultKind::Gradient || kind == graph::ResultKind::ReducedGradient)
        results.set(index);
    terminator->eraseOperands(results);
    (void)microstep.eraseResults(results);
    eraseDeadOps(microstep.getBody().front());
    for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::GradientBucket))
      arguments.set(index);
    (void)microstep.eraseArguments(arguments);
  }

  void takeOps() {
    OpBuilder builder(terminator);
    for (Operation &op : update.getBody().front().without_terminator())
      builder.clone(op, mapping);
    SmallVector<Value> results(terminator->getOperands());
    SmallVector<DictionaryAttr> attributes;
    microstep.getAllResultAttrs(attributes);
    for (auto [index, value] : llvm::enumerate(update.getBody().front().getTerminator()->getOperands())) {
      results.push_back(mapping.lookupOrDefault(value));
      attributes.push_back(update.getResultAttrDict(index));
    }
    terminator->setOperands(results);
    microstep.setFunctionType(builder.getFunctionType(microstep.getArgumentTypes(), TypeRange(ValueRange(results))));
    microstep.setAllResultAttrs(attributes);
  }

  func::FuncOp microstep, update;
  Operation *terminator;
  IRMapping mapping;
};

struct UpdateInBackward : impl::UpdateInBackwardBase<UpdateInBackward> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp microstep = graph::findEntry(module, graph::Entry::Microstep),
                 update = graph::findEntry(module, graph::Entry::Update);
    if (!graph::updatesInBackward(module) || !microstep || !update)
      return markAllAnalysesPreserved();
    if (auto directions = update.getBody().front().getOps<graph::MomentumDirectionOp>(); !directions.empty()) {
      (*directions.begin())
          ->emitError("is made orthogonal as a whole bucket, which is gathered for it: no update in "
                      "the backward");
      return signalPassFailure();
    }
    if (failed(UpdateJoiner(microstep, update).run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
