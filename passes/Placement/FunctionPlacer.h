// Places of the values of one function.
#pragma once
#include "compiler/Analysis/StepKinds.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Placement/BucketSlots.h"
#include "passes/Placement/Passes.h"

namespace ztc {

/// Assigns and writes down the places of one function: arguments, then what results must be where (from the end), then
/// the rest.
class FunctionPlacer {
public:
  FunctionPlacer(mlir::func::FuncOp function, SlotTable &slots, BucketSlots &buckets, const AssignOptions &options)
      : function(function), slots(slots), buckets(buckets), options(options) {}
  llvm::LogicalResult run();

private:
  llvm::LogicalResult placeArguments();
  llvm::FailureOr<SlotPlace> argumentPlace(unsigned index);
  /// Of what delayed scaling keeps from step to step, by its role.
  SlotPlace fp8Place(llvm::StringRef name, mlir::RankedTensorType type);
  llvm::LogicalResult placeResults();
  llvm::FailureOr<SlotPlace> resultPlace(unsigned index);
  /// Makes the value of `use` lie at `place`: its producer writes there, or a copy does.
  void demand(mlir::OpOperand &use, SlotPlace place);
  void demandSource(mlir::OpOperand &use, const Alias &alias, SlotPlace place);
  void demandCollective(mlir::Operation *done, SlotPlace place);
  void demandParts(dist::PackOp pack, SlotPlace place);
  void demandAddends(llvm::ArrayRef<mlir::Operation *> chain, SlotPlace place);
  void insertCopy(mlir::OpOperand &use, SlotPlace place, llvm::StringRef why);

  void placePacks();
  void placeDirections();
  void joinSums();
  SlotPlace placeOf(mlir::Value value);
  void placeOps();
  void placeResult(mlir::OpResult result);
  /// Where what a collective gives lies: in the place of what it takes, or in a slot of its own.
  SlotPlace collectivePlace(mlir::Operation *op);
  void placeScratch(mlir::Operation *op);
  SlotPlace scratchSlot(mlir::Operation *op, llvm::StringRef name, plan_ir::SizeKind kind, uint64_t bytes,
                        std::optional<uint64_t> gpuBytes = {});
  std::string reasonFor(mlir::Value value);
  std::string slotName(mlir::Value value);
  void writeAttributes();

  mlir::func::FuncOp function;
  SlotTable &slots;
  BucketSlots &buckets;
  const AssignOptions &options;
  WorkspaceLimits limits;
  llvm::DenseMap<mlir::Value, SlotPlace> places;
  llvm::DenseMap<mlir::Value, plan_ir::Accumulate> modes;
  llvm::DenseMap<mlir::Value, mlir::Value> sums; ///< computed value => the accumulator in whose place it is added
  mlir::Operation *lossOp = nullptr;             ///< the training form of the loss: forward before, backward after
};

} // namespace ztc
