// The order in which a program computes, for passes that put moves beside it.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

namespace ztc {

/// The steps that compute, of one program, by place.
class StepOrder {
public:
  explicit StepOrder(plan_ir::ProgramOp program) {
    for (mlir::Operation &op : program.getBody().front())
      if (auto step = llvm::dyn_cast<plan_ir::StepOpInterface>(op);
          step && step.getStepStream() == 0 && !llvm::isa<plan_ir::RecordOp, plan_ir::WaitOp>(op)) {
        places[&op] = unsigned(steps.size());
        steps.push_back(&op);
        layers.push_back(step.getStepLayer());
      }
  }
  unsigned size() const { return unsigned(steps.size()); }
  mlir::Operation *at(unsigned place) const { return steps[place]; }
  bool contains(mlir::Operation *op) const { return places.contains(op); }
  unsigned placeOf(mlir::Operation *op) const { return places.lookup(op); }
  /// Of this step, or of the first one after it; size() where there is none.
  unsigned placeFrom(mlir::Operation *op) const {
    while (op && !contains(op))
      op = op->getNextNode();
    return op ? placeOf(op) : size();
  }
  /// Of this step, or of the last one before it.
  unsigned placeUntil(mlir::Operation *op) const {
    while (op && !contains(op))
      op = op->getPrevNode();
    return op ? placeOf(op) : 0;
  }

  /// The first step of the block that is computed right before the one of step `place`, but none before `least`.
  unsigned oneBlockBefore(unsigned place, unsigned least) const {
    unsigned other = place;
    while (other > least && isSameBlock(other - 1, place))
      --other;
    if (other <= least)
      return std::min(place, std::max(other, least));
    const unsigned before = other - 1;
    while (other > least && isSameBlock(other - 1, before))
      --other;
    return other;
  }
  /// The step after the block that is computed right after the one of step `place`; size() where there is none.
  unsigned oneBlockAfter(unsigned place) const {
    unsigned other = place + 1;
    while (other < size() && isSameBlock(other, place))
      ++other;
    const unsigned next = other;
    while (other < size() && isSameBlock(other, next))
      ++other;
    return other;
  }

private:
  bool isSameBlock(unsigned a, unsigned b) const { return layers[a] == layers[b]; }
  llvm::SmallVector<mlir::Operation *> steps;
  llvm::SmallVector<int64_t> layers; ///< of each step
  llvm::DenseMap<mlir::Operation *, unsigned> places;
};

} // namespace ztc
