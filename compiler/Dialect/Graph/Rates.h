// Learning rates of single parameters: the run's rate times a factor.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace ztc::graph {

/// Parameter: f64, what the learning rate is multiplied by; absent: 1.
inline constexpr llvm::StringLiteral kRate = "graph.rate";

/// The factors of a bucket's elements, as runs: factor i is that of the elements from ends[i - 1] (0 for the first) up
/// to ends[i], counted in the whole bucket, and the last one that of all behind. Empty where all are 1.
struct RateFactors {
  llvm::SmallVector<int64_t> ends;
  llvm::SmallVector<double> factors;

  bool empty() const { return factors.empty(); }
  /// That of an element.
  double at(int64_t element) const;
};

/// Joins runs of one factor, and drops all where none is another than 1.
RateFactors simplified(RateFactors rates);

/// Those of a graph.optimizer_step, as the attributes `graph.rate_ends` and `graph.rate_factors`.
RateFactors rateFactorsOf(mlir::Operation *step);
void setRateFactors(mlir::Operation *step, const RateFactors &rates);
/// (C8) of graph.optimizer_step: as many ends as factors, the ends ascend, each factor is finite and positive.
llvm::LogicalResult verifyRateFactors(mlir::Operation *step);

} // namespace ztc::graph
