// A part of a function that is f32 in every precision.
#pragma once
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "mlir/IR/Builders.h"

namespace ztc::graph {

/// While it lives, everything that its builder emits at one place rounds nothing: ops are marked where it ends.
class WideOps {
public:
  explicit WideOps(mlir::OpBuilder &builder) : builder(builder), before(lastOp()) {}
  ~WideOps() {
    mlir::Block *block = builder.getInsertionBlock();
    mlir::Operation *op = before ? before->getNextNode() : &block->front();
    for (mlir::Operation *end = stop(); op != end; op = op->getNextNode()) {
      if (llvm::isa<ConstantOp>(op))
        continue;
      op->setAttr(kWide, builder.getUnitAttr());
      if (llvm::isa<MatmulOp, StatePassingOp, UnitLowerInverseOp>(op)) // products in their derivatives
        op->setAttr(kWideFactors, builder.getUnitAttr());
    }
  }
  WideOps(const WideOps &) = delete;
  WideOps &operator=(const WideOps &) = delete;

private:
  mlir::Operation *stop() const {
    return builder.getInsertionPoint() == builder.getInsertionBlock()->end() ? nullptr : &*builder.getInsertionPoint();
  }
  mlir::Operation *lastOp() const {
    mlir::Block *block = builder.getInsertionBlock();
    if (mlir::Operation *op = stop())
      return op->getPrevNode();
    return block->empty() ? nullptr : &block->back();
  }

  mlir::OpBuilder &builder;
  mlir::Operation *before; ///< null: the block begins here
};

} // namespace ztc::graph
