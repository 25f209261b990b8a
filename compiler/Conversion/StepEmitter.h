// Steps from ops that have places.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace ztc {

/// Writes the steps of one function into a program.
class StepEmitter {
public:
  /// `builder` stands at the end of the program's body.
  StepEmitter(mlir::func::FuncOp function, mlir::OpBuilder &builder) : function(function), builder(builder) {}
  llvm::LogicalResult run();
  int64_t flops() const { return totalFlops; }
  /// Sentences for who reads the plan, one per copy that was unavoidable.
  llvm::ArrayRef<std::string> remarks() const { return remarkTexts; }

private:
  /// What every step has.
  struct Common {
    mlir::StringAttr label;
    mlir::IntegerAttr layer, flops;
    mlir::StringAttr reason;
  };
  llvm::LogicalResult emit(mlir::Operation *op);
  llvm::LogicalResult emitLaunches(mlir::Operation *op);
  void emitGemm(mlir::Operation *op);
  void emitAttention(mlir::Operation *op);
  void emitLinearCrossEntropy(mlir::Operation *op);
  void emitGather(mlir::Operation *op);
  void emitScatterAdd(mlir::Operation *op);
  void emitCopy(mlir::Operation *op);
  void emitGaps(mlir::Operation *op);

  Common describe(mlir::Operation *op, llvm::StringRef kind, llvm::StringRef reason);
  plan_ir::PlaceAttr placeOf(mlir::Value value);
  mlir::Attribute operand(mlir::Value value, plan_ir::Access access);
  mlir::Attribute result(mlir::OpResult value);
  mlir::Attribute scratch(mlir::Operation *op, unsigned index, plan_ir::Access access = plan_ir::Access::Write);
  plan_ir::AccumulateAttr modeOf(mlir::OpResult value);
  mlir::FlatSymbolRefAttr serviceKernel(mlir::Operation *op, llvm::StringRef field);
  mlir::FlatSymbolRefAttr bucketOf(mlir::Operation *op);
  mlir::IntegerAttr number(int64_t value) { return builder.getI64IntegerAttr(value); }

  mlir::func::FuncOp function;
  mlir::OpBuilder &builder;
  llvm::StringMap<unsigned> labels;
  int64_t totalFlops = 0;
  std::vector<std::string> remarkTexts;
};

} // namespace ztc
