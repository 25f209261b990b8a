#include "passes/Fusion/Group.h"
#include "compiler/Analysis/Recomputation.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ztc {

bool isSplatConstant(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat();
}

graph::FusionOp groupOps(ArrayRef<Operation *> ops, StringRef name, graph::FusionKind kind) {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs, constants;
  SmallVector<Value> outputs;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
        (isSplatConstant(operand) ? constants : inputs).insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        outputs.push_back(result);
  }

  Operation *last = ops.back();
  OpBuilder builder(last);
  auto fusion = graph::FusionOp::create(builder, last->getLoc(), TypeRange(ValueRange(outputs)), inputs.getArrayRef(),
                                        name, kind);
  Block &body = fusion.getBody().empty() ? fusion.getBody().emplaceBlock() : fusion.getBody().front();
  body.clear();
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  for (Value constant : constants)
    mapping.map(constant, builder.clone(*constant.getDefiningOp())->getResult(0));
  // Equal groups share a kernel, whether they compute something for the first time or again.
  for (Operation *op : ops) {
    Operation *inner = builder.clone(*op, mapping);
    inner->removeAttr(kRecomputed);
    inner->removeAttr(kRecomputation);
  }
  if (llvm::all_of(ops, [](Operation *op) { return op->hasAttr(kRecomputation); }))
    fusion->setAttr(kRecomputation, builder.getUnitAttr());
  graph::YieldOp::create(builder, last->getLoc(),
                         llvm::map_to_vector(outputs, [&](Value output) { return mapping.lookup(output); }));

  for (auto [output, result] : llvm::zip_equal(outputs, fusion.getOutputs()))
    output.replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return fusion;
}

} // namespace ztc
