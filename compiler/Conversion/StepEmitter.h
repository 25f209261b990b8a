// Steps from ops that have places.
#pragma once
#include "compiler/Analysis/BucketTable.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace ztc {

/// Streams of a plan.
enum class Stream : int64_t { Compute = 0, Communication = 1 };

/// Writes the steps of one function into a program.
class StepEmitter {
public:
  /// `builder` stands at the end of the program's body. Events are numbered from `events` on.
  StepEmitter(mlir::func::FuncOp function, mlir::OpBuilder &builder, const BucketTable &buckets, int64_t &events)
      : function(function), builder(builder), buckets(buckets), events(events) {}
  llvm::LogicalResult run();
  int64_t flops() const { return totalFlops; }
  /// Notes for the reader of the plan, one per copy that could not be avoided.
  llvm::ArrayRef<std::string> remarks() const { return remarkTexts; }

private:
  /// What every step has.
  struct Common {
    mlir::StringAttr label;
    mlir::IntegerAttr layer, flops;
    mlir::StringAttr reason;
  };
  /// The properties of a step with what every step has in them; the others are set by name.
  template <typename Step>
  typename Step::Properties begin(const Common &common, llvm::ArrayRef<mlir::Attribute> slots,
                                  Stream stream = Stream::Compute) {
    typename Step::Properties step;
    step.label = common.label;
    step.slots = builder.getArrayAttr(slots);
    step.layer = common.layer;
    step.stream = number(int64_t(stream));
    step.reason = common.reason;
    step.flops = common.flops;
    return step;
  }
  /// The step that executes `op`, or a part of it.
  template <typename Step> void create(mlir::Operation *op, const typename Step::Properties &step) {
    Step::create(builder, op->getLoc(), mlir::TypeRange(), mlir::ValueRange(), step);
  }
  llvm::LogicalResult emit(mlir::Operation *op);
  llvm::LogicalResult emitLaunches(mlir::Operation *op);
  void emitGemm(mlir::Operation *op);
  void emitAttention(mlir::Operation *op);
  void emitLinearCrossEntropy(mlir::Operation *op);
  void emitGather(mlir::Operation *op);
  void emitScatterAdd(mlir::Operation *op);
  void emitCopy(mlir::Operation *op);
  llvm::LogicalResult emitNarrow(mlir::Operation *op);
  void emitGaps(mlir::Operation *op);

  /// record, wait, the collective, record: it starts when the computation is there, on the other stream.
  void emitStart(mlir::Operation *op);
  /// The computation waits for the collective's end; until then the slots that it touches are in use.
  void emitDone(mlir::Operation *op);
  void emitRecord(mlir::Operation *start, llvm::StringRef what, Stream stream, int64_t event);
  void emitWait(mlir::Operation *start, llvm::StringRef what, Stream stream, int64_t event,
                llvm::ArrayRef<mlir::Attribute> slots);
  mlir::StringAttr uniqueLabel(std::string label);

  Common describe(mlir::Operation *op, llvm::StringRef kind, llvm::StringRef reason);
  plan_ir::PlaceAttr placeOf(mlir::Value value);
  mlir::Attribute operand(mlir::Value value, plan_ir::Access access);
  mlir::Attribute result(mlir::OpResult value);
  mlir::Attribute scratch(mlir::Operation *op, unsigned index, plan_ir::Access access = plan_ir::Access::Write);
  plan_ir::AccumulateAttr modeOf(mlir::OpResult value);
  /// What a GPU executes in place of a library call of the host; null: nothing was made for one.
  mlir::ArrayAttr gpuKernels(mlir::Operation *op);
  mlir::FlatSymbolRefAttr serviceKernel(mlir::Operation *op, llvm::StringRef field);
  /// A type of a flat bucket among those of `op`; null where there is none.
  mlir::Type bucketType(mlir::Operation *op);
  mlir::FlatSymbolRefAttr bucketOf(mlir::Operation *op);
  mlir::IntegerAttr number(int64_t value) { return builder.getI64IntegerAttr(value); }

  mlir::func::FuncOp function;
  mlir::OpBuilder &builder;
  const BucketTable &buckets;
  int64_t &events;
  /// A collective on its way.
  struct Pending {
    std::string label;
    int64_t layer = -1, finished = 0;
    llvm::SmallVector<mlir::Attribute> slots;
  };
  llvm::DenseMap<mlir::Operation *, Pending> pending; ///< by start
  llvm::StringMap<unsigned> labels;
  int64_t totalFlops = 0;
  std::vector<std::string> remarkTexts;
};

} // namespace ztc
