// Learning rates of single parameters: the run's rate times a factor.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace ztc::graph {

/// Parameter: f64, what the learning rate is multiplied by; absent: 1.
inline constexpr llvm::StringLiteral kRate = "graph.rate";

/// Parameter: f64, one that is updated by Muon: a matrix, or a stack of matrices. The value is what its change is
/// multiplied by beside the learning rate, a function of its shape. Absent: it is updated otherwise.
inline constexpr llvm::StringLiteral kChangeFactor = "graph.change_factor";

/// The factors of a bucket's elements, as runs: factor i is that of the elements from ends[i - 1] (0 for the first) up
/// to ends[i], counted in the whole bucket, and the last one that of all after it. Empty where all are 1.
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
/// What changes are multiplied by beside the rate (kChangeFactor), as `graph.change_ends` and `graph.change_factors`.
RateFactors changeFactorsOf(mlir::Operation *step);
void setChangeFactors(mlir::Operation *step, const RateFactors &factors);
/// (C8) of graph.optimizer_step, of both: as many ends as factors, the ends ascend, each factor is finite and positive.
llvm::LogicalResult verifyRateFactors(mlir::Operation *step);

} // namespace ztc::graph
