// How far a plan's workspace may grow.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/ArenaSize.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <vector>

namespace ztc {

/// What a plan took before its workspace grew, and whether it takes more with it: in each shape the peak grows to at
/// most a budget; without one, or where it is larger already, it does not grow.
class ArenaGrowth {
public:
  /// Fails where the planner does.
  static StatusOr<ArenaGrowth> of(const plan::Plan &before, llvm::ArrayRef<PlanShape> shapes,
                                  std::optional<uint64_t> budgetBytes);

  /// Whether the plan as it is now stays within that.
  StatusOr<bool> holds(const plan::Plan &now);

private:
  struct OfShape {
    PlanShape shape;
    ArenaSize before;
    uint64_t surelyThere;          ///< the budget, or what no layout of before is smaller than
    std::optional<uint64_t> limit; ///< once it was needed
  };
  bool holds(OfShape &one, const ArenaSize &now) const;

  std::vector<OfShape> shapes;
  uint64_t budgetBytes = 0;
};

} // namespace ztc
