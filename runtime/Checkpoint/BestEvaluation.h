// What a run remembers of its evaluations, over resumes too.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ztc {

/// The best of a run's evaluations of the set that decides.
struct BestEvaluation {
  std::string name = {};           ///< of the set; empty where it has none
  std::optional<double> loss = {}; ///< nothing so far
  uint64_t step = 0;               ///< steps done at it
  uint64_t since = 0;              ///< evaluations after it, none of which was better

  /// Takes in an evaluation of the set `newName` after `newStep` steps; that of another set begins anew. True where it
  /// is the best: of equals the first is.
  bool add(const std::string &newName, double newLoss, uint64_t newStep);
  bool operator==(const BestEvaluation &) const = default;
};

} // namespace ztc
