#include "compiler/Support/BlockOrder.h"
#include "compiler/Support/Moves.h"

using namespace mlir;

namespace ztc {

/// Between two ops that nothing was moved between, and between an op and what is moved next to it.
static constexpr int64_t kRoom = int64_t(1) << 36, kOrderStep = int64_t(1) << 16;

void BlockOrder::renumber() {
  int64_t number = 0;
  for (Operation &op : block)
    numbers[&op] = number += kRoom;
}

int64_t BlockOrder::numberOf(Operation *op) {
  if (auto known = numbers.find(op); known != numbers.end())
    return known->second;
  renumber(); // it is new
  return numbers.at(op);
}

void BlockOrder::moveBefore(Operation *op, Operation *position) {
  if (op == position || op->getNextNode() == position)
    return;
  ztc::moveBefore(op, position);
  Operation *previous = op->getPrevNode();
  const int64_t to = numberOf(position), from = previous ? numberOf(previous) : to - kRoom;
  if (to - from < 2)
    return renumber();
  // The next one that is moved before `position` stands after this one.
  numbers[op] = std::min(from + kOrderStep, from + (to - from) / 2);
}

void BlockOrder::moveAfter(Operation *op, Operation *position) {
  if (op == position || op->getPrevNode() == position)
    return;
  ztc::moveAfter(op, position);
  Operation *next = op->getNextNode();
  const int64_t from = numberOf(position), to = next ? numberOf(next) : from + kRoom;
  if (to - from < 2)
    return renumber();
  numbers[op] = std::max(to - kOrderStep, to - (to - from) / 2);
}

} // namespace ztc
