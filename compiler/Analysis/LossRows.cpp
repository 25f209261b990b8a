#include "compiler/Analysis/LossRows.h"
#include "runtime/Format/ScratchSizes.h"
#include "runtime/Memory/ArenaSize.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <vector>

namespace ztc {

/// Elements of a chunk's logits, at most: kernels of libraries may count them in 31 bits.
static constexpr uint64_t kMostLogits = uint64_t(1) << 31;

namespace {
/// What one shape took before the loss grew, and whether it takes more with it.
class Growth {
public:
  Growth(ArenaSize before, uint64_t budgetBytes)
      : before(std::move(before)), budgetBytes(budgetBytes),
        surelyThere(std::max(budgetBytes, this->before.largestLiveBytes())) {}

  /// Whether `after` stays within the budget, or within what was taken before. What stays within the largest live sum
  /// of before does so whatever the search for its layout would find, which is spared then: it is so for most plans.
  bool holds(const ArenaSize &after) {
    const uint64_t least = after.largestLiveBytes();
    std::optional<uint64_t> taken;
    if (least <= surelyThere) {
      taken = after.bytes(surelyThere);
      if (*taken <= surelyThere)
        return true;
    }
    if (!limit)
      limit = std::max(budgetBytes, before.bytes());
    return least <= *limit && (taken ? *taken : after.bytes(*limit)) <= *limit;
  }

private:
  ArenaSize before;
  uint64_t budgetBytes, surelyThere;
  std::optional<uint64_t> limit;
};
} // namespace

Status growLossRows(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes) {
  const TrainingLoss loss = trainingLoss(plan);
  if (!loss.tokens || llvm::any_of(shapes, [](const PlanShape &shape) { return shape.threads != 0; }))
    return Status::ok();
  std::vector<Growth> growths;
  for (const PlanShape &shape : shapes) {
    ZTC_ASSIGN_OR_RETURN(ArenaSize before, ArenaSize::of(plan, shape));
    growths.emplace_back(std::move(before), budgetBytes.value_or(0));
  }
  const auto rowsOf = [&](uint64_t chunks) { return (loss.tokens + chunks - 1) / chunks; };
  for (uint64_t chunks = 1; rowsOf(chunks) > loss.rows; ++chunks) {
    const uint64_t rows = evenChunk(loss.tokens, llvm::alignTo(rowsOf(chunks), 128));
    if (rows * gpuLogitStride(loss.vocabulary) >= kMostLogits)
      continue;
    setLossRows(plan, rows);
    bool fits = true;
    for (auto [shape, growth] : llvm::zip_equal(shapes, growths)) {
      ZTC_ASSIGN_OR_RETURN(const ArenaSize after, ArenaSize::of(plan, shape));
      fits = growth.holds(after);
      if (!fits)
        break;
    }
    if (fits)
      return Status::ok();
  }
  setLossRows(plan, loss.rows);
  return Status::ok();
}

} // namespace ztc
