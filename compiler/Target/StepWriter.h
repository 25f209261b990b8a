// From steps of the plan dialect to their records.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// Where a symbol's record is in the plan file.
using SymbolIndices = llvm::DenseMap<mlir::StringAttr, uint32_t>;

/// The plan file's number of an element type; an error at `op` for one that it does not have.
llvm::FailureOr<plan::DataType> dataType(mlir::Operation *op, mlir::Type type);

/// How attributes of one step become values of fields. `set` gets the value, or each of several; of a kernel that is
/// not given it gets kAbsent. Errors are diagnostics at the step.
class StepFields {
public:
  /// Without `withKernels` the plan is for memory reports: a kernel that is not in `kernels` is as if not given.
  StepFields(mlir::Operation *op, const SymbolIndices &kernels, const SymbolIndices &buckets, bool withKernels)
      : op_(op), kernels_(kernels), buckets_(buckets), withKernels_(withKernels) {}

  template <typename Set> llvm::LogicalResult put(mlir::IntegerAttr value, Set set) {
    return set(value.getInt()), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(mlir::FloatAttr value, Set set) {
    return set(value.getValueAsDouble()), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(mlir::UnitAttr value, Set set) {
    return set(bool(value)), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(mlir::StringAttr value, Set set) {
    return set(value.getValue().str()), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(mlir::DenseI64ArrayAttr values, Set set) {
    for (int64_t value : values.asArrayRef())
      set(value);
    return llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(plan_ir::AccumulateAttr value, Set set) {
    return set(static_cast<plan::Accumulate>(value.getValue())), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(plan_ir::CollectiveKindAttr value, Set set) {
    return set(static_cast<plan::Collective::Kind>(value.getValue())), llvm::success();
  }
  template <typename Set> llvm::LogicalResult put(plan_ir::WeightFormatAttr value, Set set) {
    return set(static_cast<plan::WeightFormat>(value.getValue())), llvm::success();
  }
  /// Sets nothing if `value` is null.
  template <typename Set> llvm::LogicalResult put(mlir::TypeAttr value, Set set) {
    if (!value)
      return llvm::success();
    llvm::FailureOr<plan::DataType> type = dataType(op_, value.getValue());
    return failed(type) ? llvm::failure() : (set(*type), llvm::success());
  }
  template <typename Set> llvm::LogicalResult putKernel(mlir::FlatSymbolRefAttr symbol, Set set) {
    llvm::FailureOr<uint32_t> index = kernel(symbol);
    return failed(index) ? llvm::failure() : (set(*index), llvm::success());
  }
  template <typename Set> llvm::LogicalResult putKernel(mlir::ArrayAttr symbols, Set set) {
    for (mlir::Attribute symbol : symbols ? symbols.getValue() : llvm::ArrayRef<mlir::Attribute>())
      if (failed(putKernel(llvm::cast<mlir::FlatSymbolRefAttr>(symbol), set)))
        return llvm::failure();
    return llvm::success();
  }
  /// Sets nothing if `symbol` is null.
  template <typename Set> llvm::LogicalResult putBucket(mlir::FlatSymbolRefAttr symbol, Set set) {
    if (!symbol)
      return llvm::success();
    llvm::FailureOr<uint32_t> index = find(buckets_, symbol, "bucket");
    return failed(index) ? llvm::failure() : (set(*index), llvm::success());
  }

private:
  llvm::FailureOr<uint32_t> kernel(mlir::FlatSymbolRefAttr symbol) const;
  llvm::FailureOr<uint32_t> find(const SymbolIndices &indices, mlir::FlatSymbolRefAttr symbol,
                                 llvm::StringRef what) const;

  mlir::Operation *op_;
  const SymbolIndices &kernels_, &buckets_;
  const bool withKernels_;
};

/// Writes the record of a step's kind: each attribute of the op to the field of the same name (StepFields.inc, which
/// step_fields.py makes of PlanSteps.td at build time).
llvm::LogicalResult writeStepKind(StepFields &fields, mlir::Operation *step, plan::Step &record);

} // namespace ztc
