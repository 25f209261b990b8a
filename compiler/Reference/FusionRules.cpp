// Reference rule of fusion groups: their body, op by op.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Interpreter.h"

using namespace mlir;

namespace ztc {

void addFusionRules(RuleTable &table) {
  table.addNamed(graph::FusionOp::getOperationName(),
                 [](Operation *op, Operands operands, Results results, Interpreter &interpreter) -> LogicalResult {
                   SmallVector<Tensor> arguments;
                   for (const Tensor *operand : operands)
                     arguments.push_back(*operand);
                   FailureOr<SmallVector<Tensor>> values = interpreter.run(op->getRegion(0).front(), arguments);
                   if (failed(values))
                     return failure();
                   llvm::move(*values, results.begin());
                   return success();
                 });
}

} // namespace ztc
