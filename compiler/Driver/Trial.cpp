#include "compiler/Driver/Trial.h"

using namespace mlir;

namespace ztc::driver {

/// At most so many ranks are tried.
static constexpr unsigned kMostTriedRanks = 1024;

Trial::Trial(CompileOptions options) : session(std::move(options)) {
  if (session.isValid() && succeeded(session.run(Phase::Shard)))
    probe.emplace(session.probe());
}

std::optional<uint64_t> Trial::smallestPeak(unsigned world) {
  if (!probe)
    return std::nullopt;
  FailureOr<RecomputeDecision> decision =
      session.decide(*probe, shapeOf(session.options(), world, session.options().targets), 0);
  return succeeded(decision) ? std::optional(decision->chosen.peakBytes) : std::nullopt;
}

std::optional<Trial::Ranks> Trial::moreRanks(unsigned first, uint64_t budgetBytes) {
  std::optional<Ranks> least;
  for (unsigned ranks = first; ranks <= std::max(kMostTriedRanks, first); ranks *= 2) {
    std::optional<uint64_t> peak = smallestPeak(ranks);
    if (!peak || (least && *peak >= least->peakBytes))
      break;
    least = Ranks{ranks, *peak};
    if (*peak <= budgetBytes)
      break;
  }
  return least;
}

int64_t Trial::attribute(StringRef name) {
  auto value = probe ? session.module()->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  return value ? value.getInt() : 0;
}

} // namespace ztc::driver
