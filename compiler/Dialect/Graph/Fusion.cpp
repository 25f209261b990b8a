// Groups: constraints and cost.
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

llvm::StringRef ztc::graph::reasonOf(FusionKind kind) {
  switch (kind) {
  case FusionKind::Single:
    return "";
  case FusionKind::Chain:
    return "pointwise chain of one shape";
  case FusionKind::Macro:
    return "macro op, one kernel";
  case FusionKind::Scalars:
    return "scalars of one function, one kernel";
  case FusionKind::ShardSum:
    return "the rank's shard of a sum over ranks is kept";
  case FusionKind::AddendCopy:
    return "the addend of a sum has another reader";
  case FusionKind::PartCopy:
    return "a gradient that is reduced has another reader";
  case FusionKind::Split:
    return "fusion is off";
  }
  llvm_unreachable("every kind is above");
}

LogicalResult FusionOp::verify() {
  Block &block = getBody().front();
  // (C1)
  if (block.getNumArguments() != getInputs().size())
    return emitOpError("has ") << getInputs().size() << " operands and " << block.getNumArguments()
                               << " block arguments";
  for (auto [i, pair] : llvm::enumerate(llvm::zip(block.getArgumentTypes(), getInputs().getTypes())))
    if (std::get<0>(pair) != std::get<1>(pair))
      return emitOpError("types of operand and block argument ")
             << i << " differ: " << std::get<1>(pair) << " and " << std::get<0>(pair);
  // (C2)
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().size() != getOutputs().size())
    return emitOpError("has ") << getOutputs().size() << " results and yields "
                               << (yield ? yield.getValues().size() : 0) << " values";
  for (auto [i, pair] : llvm::enumerate(llvm::zip(yield.getValues().getTypes(), getOutputs().getTypes())))
    if (std::get<0>(pair) != std::get<1>(pair))
      return emitOpError("types of result and yielded value ")
             << i << " differ: " << std::get<1>(pair) << " and " << std::get<0>(pair);
  // (C3)
  for (Operation &op : block)
    if (op.getDialect() != (*this)->getDialect()) {
      InFlightDiagnostic diagnostic = emitOpError("holds an op of another dialect");
      diagnostic.attachNote(op.getLoc()) << "'" << op.getName() << "' is here";
      return diagnostic;
    }
  return success();
}

int64_t FusionOp::getFlops() {
  int64_t flops = 0;
  for (Operation &op : getBody().front())
    if (auto cost = dyn_cast<CostOpInterface>(op))
      flops += cost.getFlops();
  return flops;
}

/// The implicit terminator of a group without results.
void YieldOp::build(OpBuilder &, OperationState &) {}
