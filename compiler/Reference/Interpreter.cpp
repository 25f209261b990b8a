#include "compiler/Reference/Interpreter.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Rendezvous.h"
#include "runtime/Format/Shards.h"

using namespace mlir;

namespace ztc {

const RuleTable::Rule *RuleTable::lookup(Operation &op) const {
  auto step = dyn_cast<graph::OptimizerStepOp>(op);
  const llvm::StringMap<Rule> &table = step ? optimizers : rules;
  auto found = table.find(step ? step.getOptimizer() : op.getName().getStringRef());
  return found == table.end() ? nullptr : &found->second;
}

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
  addQuantizeRules(table);
  addRecurrenceRules(table);
  addExpertRules(table);
  addDistRules(table);
  for (auto addRules : options.moreRules)
    addRules(table);
}

FailureOr<FlatRange> Interpreter::flatRange(Operation *op, Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.hasStaticShape())
    return FlatRange{0, tensor.getNumElements()};
  FlatSymbolRefAttr name = dist::bucketOf(type);
  auto bucket = name ? op->getParentOfType<ModuleOp>().lookupSymbol<dist::BucketOp>(name.getAttr()) : dist::BucketOp();
  if (!bucket)
    return op->emitOpError("has no reference rule for a size that the type leaves open: ") << type;
  unsigned world = options.ranks ? options.ranks->size() : 1;
  int64_t shard = int64_t(shardElements(bucket.getElements(), world, bucket.getQuantum().value_or(0)));
  return dist::isFull(type) ? FlatRange{0, shard * world} : FlatRange{shard * options.rank, shard};
}

double Interpreter::roundInside(double value, Type type) const {
  bool isNarrow = type.isIntOrFloat() && type.getIntOrFloatBitWidth() < 32;
  return options.precision == Precision::F32 && isNarrow ? roundTo(value, type) : value;
}

/// The type of the tensor that the interpreter holds for a value: what is pending is there already.
static RankedTensorType heldType(Type type) {
  if (auto pending = dyn_cast<dist::PendingType>(type))
    return pending.getResult();
  return cast<RankedTensorType>(type);
}

LogicalResult Interpreter::execute(Operation &op, DenseMap<Value, Tensor> &values) {
  const RuleTable::Rule *rule = table.lookup(op);
  if (!rule)
    return op.emitOpError("has no rule in the reference interpreter");
  SmallVector<const Tensor *> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&values.find(operand)->second);
  SmallVector<Tensor> results(op.getNumResults());
  for (auto [result, tensor] : llvm::zip(op.getResults(), results)) {
    RankedTensorType type = heldType(result.getType());
    if (type.hasStaticShape()) {
      tensor = Tensor(type);
    } else if (dist::bucketOf(type)) {
      FailureOr<FlatRange> range = flatRange(&op, type);
      if (failed(range))
        return failure();
      tensor = Tensor({range->length}, type.getElementType());
    } else {
      tensor.elementType = type.getElementType();
    }
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
