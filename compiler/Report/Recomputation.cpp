// What --recompute=auto chose.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;

namespace ztc::report {

std::string decisionText(const RecomputeDecision &decision) {
  std::string text;
  for (const RecomputeDecision::Share &share : decision.shares)
    text += formatv("{0}{1} {2}/{3}", text.empty() ? "" : ", ", kRecomputeGroupNames[unsigned(share.group)],
                    share.blocks, share.ofBlocks);
  return text.empty() ? "nothing" : text;
}

/// What a group is, for who does not know the names.
static const char *groupText(RecomputeGroup group) {
  switch (group) {
  case RecomputeGroup::Pointwise:
    return "norms and activations: no product is needed for them";
  case RecomputeGroup::Mlp:
    return "gate and up products: as cheap per byte as any product, and the most bytes";
  case RecomputeGroup::Qkv:
    return "query, key and value products";
  case RecomputeGroup::Projection:
    return "attention's output product and the sum after it";
  case RecomputeGroup::Attention:
    return "attention itself: nothing cheaper was left";
  case RecomputeGroup::Down:
    return "down products: nothing cheaper was left";
  }
  return "";
}

void printDecision(llvm::raw_ostream &out, const RecomputeDecision &decision, uint64_t budgetBytes,
                   uint64_t reserveBytes) {
  std::string budget = "--mem=" + formatSize(budgetBytes);
  if (reserveBytes)
    budget += " less --reserve=" + formatSize(reserveBytes);
  uint64_t arena = budgetBytes - std::min(budgetBytes, reserveBytes), kept = decision.kept.peakBytes;
  if (kept <= arena) {
    out << formatv("recompute: {0} changes nothing: the step needs {1} with everything kept, {2} bytes are left\n",
                   budget, formatSize(kept), arena - kept);
    return;
  }
  out << formatv("recompute: with everything kept the step needs {0}, {1} bytes more than {2}\n", formatSize(kept),
                 kept - arena, budget);
  for (const RecomputeDecision::Share &share : decision.shares)
    out << formatv("  {0} in {1} of {2} blocks, {3} not kept: {4}\n", kRecomputeGroupNames[unsigned(share.group)],
                   share.blocks, share.ofBlocks, formatSize(share.bytes), groupText(share.group));
  double longer = decision.kept.seconds > 0 ? 100 * (decision.chosen.seconds / decision.kept.seconds - 1) : 0;
  if (decision.fits)
    out << formatv("  peak {0}, {1} bytes left; a step takes {2:F1} % longer by the cost model; {3} choices measured\n",
                   formatSize(decision.chosen.peakBytes), arena - decision.chosen.peakBytes, longer, decision.measured);
}

} // namespace ztc::report
