// Steps from ops that have places.
#pragma once
#include "compiler/Analysis/BucketTable.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace ztc {

/// Sizes of a value of static shape.
inline int64_t dimensionOf(mlir::Value value, unsigned index) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(index);
}
inline int64_t elementsOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}

/// Streams of a plan.
enum class Stream : int64_t { Compute = 0, Communication = 1 };

/// What every step has.
struct StepHead {
  mlir::StringAttr label;
  mlir::IntegerAttr layer, flops;
  mlir::StringAttr reason;
};

/// A collective that was started.
struct StartedCollective {
  std::string label;
  int64_t layer = -1, finished = 0; ///< finished: the event of its end
  llvm::SmallVector<mlir::Attribute> slots;
};

/// Writes the steps of one function into a program. What becomes of an op is said by its StepSourceOpInterface
/// (Steps/), which finds here what all kinds share.
class StepEmitter {
public:
  /// `builder` stands at the end of the program's body. Events are numbered from `events` on.
  StepEmitter(mlir::func::FuncOp function, mlir::OpBuilder &builder, const BucketTable &buckets, int64_t &events)
      : function_(function), builder_(builder), buckets_(buckets), events_(events) {}
  llvm::LogicalResult run();
  int64_t flops() const { return flops_; }
  /// Notes for readers of the plan, one per copy that could not be avoided.
  llvm::ArrayRef<std::string> remarks() const { return remarks_; }

  /// The head of the next step of `op`: its name, and its operations, which are counted once.
  StepHead describe(mlir::Operation *op, llvm::StringRef kind, llvm::StringRef reason);
  /// The properties of a step with what every step has in them; the others are set by name.
  template <typename Step>
  Step::Properties begin(const StepHead &head, llvm::ArrayRef<mlir::Attribute> slots, Stream stream = Stream::Compute) {
    typename Step::Properties step;
    step.label = head.label;
    step.slots = builder_.getArrayAttr(slots);
    step.layer = head.layer;
    step.stream = number(int64_t(stream));
    step.reason = head.reason;
    step.flops = head.flops;
    return step;
  }
  /// The step that executes `op`, or a part of it.
  template <typename Step> llvm::LogicalResult create(mlir::Operation *op, const Step::Properties &step) {
    Step::create(builder_, op->getLoc(), mlir::TypeRange(), mlir::ValueRange(), step);
    return llvm::success();
  }
  /// The error that `op` becomes no step.
  static llvm::LogicalResult refuse(mlir::Operation *op);

  plan_ir::PlaceAttr placeOf(mlir::Value value);
  /// A value as an operand of its step; a result that is added to is read, too.
  mlir::Attribute operand(mlir::Value value, plan_ir::Access access);
  mlir::Attribute result(mlir::OpResult value);
  mlir::Attribute scratch(mlir::Operation *op, unsigned index, plan_ir::Access access = plan_ir::Access::Write);
  plan_ir::AccumulateAttr modeOf(mlir::OpResult value);
  plan_ir::AccumulateAttr overwrite();
  /// What a GPU executes in place of a library call of the host; null: nothing was made for one.
  mlir::ArrayAttr gpuKernels(mlir::Operation *op);
  mlir::FlatSymbolRefAttr serviceKernel(mlir::Operation *op, llvm::StringRef field);
  /// A type of a flat bucket among those of `op`; null where there is none.
  mlir::Type bucketType(mlir::Operation *op);
  /// The bucket that a flat kernel works on.
  mlir::FlatSymbolRefAttr bucketOf(mlir::Operation *op);
  mlir::StringAttr uniqueLabel(std::string label);
  mlir::IntegerAttr number(int64_t value) { return builder_.getI64IntegerAttr(value); }
  mlir::UnitAttr flag(bool set) { return set ? builder_.getUnitAttr() : mlir::UnitAttr(); }
  static mlir::TypeAttr elementType(mlir::Value value);
  void addRemark(const std::string &text) { remarks_.push_back(function_.getName().str() + ": " + text); }
  int64_t nextEvent() { return events_++; }
  StartedCollective &started(mlir::Operation *start) { return started_[start]; }
  const BucketTable &buckets() const { return buckets_; }
  mlir::OpBuilder &builder() { return builder_; }

private:
  llvm::LogicalResult emit(mlir::Operation *op);

  mlir::func::FuncOp function_;
  mlir::OpBuilder &builder_;
  const BucketTable &buckets_;
  int64_t &events_;
  llvm::DenseMap<mlir::Operation *, StartedCollective> started_; ///< by start
  llvm::StringMap<unsigned> labels_;
  int64_t flops_ = 0;
  std::vector<std::string> remarks_;
};

} // namespace ztc
