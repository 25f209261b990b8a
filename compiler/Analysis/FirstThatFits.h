// From which number on an ordered list has freed enough memory.
#pragma once
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>

namespace ztc {

/// What is known of a step that is held against a budget.
struct BudgetFit {
  bool fits = false;       ///< its peak is at most the budget
  uint64_t leastBytes = 0; ///< no peak of it is smaller
};

/// The smallest number above `below` that fits, where `below` does not and `above` does, and what is above a number
/// that fits does too. `bytesBelow` is the BudgetFit::leastBytes of `below`, `savedBytes` what a number saves by
/// estimate, which never falls as numbers grow: from both follows where to ask, so that mostly three or four numbers
/// are asked about, and never more than three times as many as by bisection. Fails where `fits` does.
mlir::FailureOr<size_t> firstThatFits(size_t below, size_t above, uint64_t bytesBelow, uint64_t budgetBytes,
                                      llvm::function_ref<uint64_t(size_t)> savedBytes,
                                      llvm::function_ref<mlir::FailureOr<BudgetFit>(size_t)> fits);

} // namespace ztc
