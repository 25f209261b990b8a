#include "compiler/Analysis/LossRows.h"
#include "compiler/Analysis/ArenaGrowth.h"
#include "runtime/Format/ScratchSizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace ztc {

/// Elements of a chunk's logits, at most: kernels of libraries may count them in 31 bits.
static constexpr uint64_t kMostLogits = uint64_t(1) << 31;

Status growLossRows(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes) {
  const TrainingLoss loss = trainingLoss(plan);
  if (!loss.tokens || llvm::any_of(shapes, [](const PlanShape &shape) { return shape.threads != 0; }))
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(ArenaGrowth growth, ArenaGrowth::of(plan, shapes, budgetBytes));
  const auto rowsOf = [&](uint64_t chunks) { return (loss.tokens + chunks - 1) / chunks; };
  for (uint64_t chunks = 1; rowsOf(chunks) > loss.rows; ++chunks) {
    const uint64_t rows = evenChunk(loss.tokens, llvm::alignTo(rowsOf(chunks), 128));
    if (rows * gpuLogitStride(loss.vocabulary) >= kMostLogits)
      continue;
    setLossRows(plan, rows);
    ZTC_ASSIGN_OR_RETURN(const bool fits, growth.holds(plan));
    if (fits)
      return Status::ok();
  }
  setLossRows(plan, loss.rows);
  return Status::ok();
}

} // namespace ztc
