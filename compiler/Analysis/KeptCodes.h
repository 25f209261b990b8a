// How long the fp8 codes of weights live: from product to product, or over all micro-steps of a step.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Memory/Planner.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <string>

namespace ztc {

/// Keeps the fp8 codes of weights: the first micro-step of a step makes a weight's codes, by rows and by columns at
/// once where backward reads those, in front of its first product, and has them for recomputation, for the backward and
/// for all further micro-steps; the absolute maxima that give their scale are found once too. With a budget as many
/// weights as let the peak of each of `shapes` stay within it, those first whose codes wait the least for the backward;
/// what is over already keeps nothing. Without one all are kept. A plan of another precision, and weights that do not
/// lie on the device, stay as they are. Fails where the planner does.
Status keepCodes(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes);

/// What a plan does with the fp8 codes of weights.
struct CodeLives {
  unsigned weights = 0;   ///< that have codes
  unsigned kept = 0;      ///< of these: whose codes are kept
  uint64_t keptBytes = 0; ///< of the kept codes and scales, on each rank
};
CodeLives codeLives(const plan::Plan &plan);
/// "of 64 weights in fp8 64 have codes that are kept to the backward and over micro-steps (1.81 GiB)"; empty where none
/// has.
std::string describeCodes(const plan::Plan &plan);

} // namespace ztc
