#include "runtime/Checkpoint/BestEvaluation.h"
#include <cmath>

namespace ztc {

bool BestEvaluation::add(const std::string &newName, double newLoss, uint64_t newStep) {
  if (newName != name)
    *this = {.name = newName};
  if (!std::isfinite(newLoss) || (loss && newLoss >= *loss)) {
    ++since;
    return false;
  }
  loss = newLoss;
  step = newStep;
  since = 0;
  return true;
}

} // namespace ztc
