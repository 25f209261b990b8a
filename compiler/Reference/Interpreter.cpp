#include "compiler/Reference/Interpreter.h"

using namespace mlir;

namespace ztc {

Interpreter::Interpreter(const InterpreterOptions &options) : options(options) {
  addElementwiseRules(table);
  addShapeRules(table);
  addMatmulRules(table);
  addNormRules(table);
  addAttentionRules(table);
  addEmbeddingRules(table);
  addLossRules(table);
  addOptimizerRules(table);
  addFusionRules(table);
  addDistRules(table);
  for (auto addRules : options.moreRules)
    addRules(table);
}

LogicalResult Interpreter::execute(Operation &op, DenseMap<Value, Tensor> &values) {
  const RuleTable::Rule *rule = table.lookup(op.getName().getStringRef());
  if (!rule)
    return op.emitOpError("has no rule in the reference interpreter");
  SmallVector<const Tensor *> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&values.find(operand)->second);
  SmallVector<Tensor> results(op.getNumResults());
  for (auto [result, tensor] : llvm::zip(op.getResults(), results)) {
    auto type = cast<RankedTensorType>(result.getType());
    if (type.hasStaticShape())
      tensor = Tensor(type);
    else
      tensor.elementType = type.getElementType();
  }
  if (failed((*rule)(&op, operands, results, *this)))
    return failure();
  for (auto [result, tensor] : llvm::zip(op.getResults(), results)) {
    if (options.precision == Precision::F32)
      for (double &value : tensor.reals)
        value = roundTo(value, tensor.elementType);
    values[result] = std::move(tensor);
  }
  return success();
}

FailureOr<SmallVector<Tensor>> Interpreter::run(Block &block, ArrayRef<Tensor> arguments) {
  DenseMap<Value, Tensor> values;
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    values[argument] = tensor;
  // A value dies after its last reader, so that whole models fit.
  DenseMap<Operation *, SmallVector<Value>> dying;
  auto noteLastUse = [&](Value value) {
    Operation *last = nullptr;
    for (Operation *user : value.getUsers())
      if (!last || last->isBeforeInBlock(user))
        last = user;
    if (last)
      dying[last].push_back(value);
  };
  llvm::for_each(block.getArguments(), noteLastUse);
  for (Operation &op : block.without_terminator())
    llvm::for_each(op.getResults(), noteLastUse);
  for (Operation &op : block.without_terminator()) {
    if (failed(execute(op, values)))
      return failure();
    for (Value value : dying.lookup(&op))
      values.erase(value);
  }
  SmallVector<Tensor> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(values.find(value)->second);
  return results;
}

FailureOr<SmallVector<Tensor>> interpret(func::FuncOp function, ArrayRef<Tensor> arguments,
                                         const InterpreterOptions &options) {
  if (function.isExternal())
    return function.emitOpError("has no body to interpret");
  if (arguments.size() != function.getNumArguments())
    return function.emitOpError("takes ")
           << function.getNumArguments() << " arguments, interpreted with " << arguments.size();
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensorType = dyn_cast<RankedTensorType>(type);
    const Tensor &argument = arguments[index];
    if (!tensorType || tensorType.getElementType() != argument.elementType ||
        failed(verifyCompatibleShape(tensorType.getShape(), argument.shape)))
      return function.emitOpError("argument ")
             << index << " has type " << type << ", interpreted with " << argument.type();
  }
  return Interpreter(options).run(function.getBody().front(), arguments);
}

} // namespace ztc
