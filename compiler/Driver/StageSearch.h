// The rows of one method at one ZeRO stage.
#pragma once
#include "compiler/Driver/PlanMethods.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/JSON.h"

namespace ztc::driver {

/// What is searched at once: compilations at one stage serve every number of ranks.
struct StagePart {
  const PlanMethod *method;
  unsigned stage;
  std::vector<unsigned> worlds;
  bool below = false;                    ///< what need not lie on the device may lie in the host's memory and on a disk
  std::vector<unsigned> fullWorlds = {}; ///< with `below`: where not even the smallest micro-batch fits on the device
  bool least = false;                    ///< asks how little memory would do where nothing can fit, which takes long
};

/// What was found, at most one of each for each number of ranks.
struct StageRows {
  std::vector<report::TrainingChoice> rows; ///< the smallest micro-batch that is nearly the fastest of those that fit
  /// With the least memory, whether it fits or not; none where nothing can fit, unless StagePart::least asks for it.
  std::vector<report::TrainingChoice> smallest;
};

/// Tries micro-batches 1, 2, 4 ... as long as a larger one is worth its memory, for each of these parts, which differ
/// in their stages and ranks alone: what comes before phase `shard` is done once. Fails after a message where the model
/// does not compile.
llvm::LogicalResult searchStages(const PlanScope &scope, llvm::ArrayRef<StagePart> parts,
                                 std::vector<StageRows> &found);

/// As one process tells it to another.
llvm::json::Value toJson(llvm::ArrayRef<StageRows> rows);
/// Fails where `text` is not what toJson gives.
llvm::LogicalResult fromJson(llvm::StringRef text, std::vector<StageRows> &rows);

} // namespace ztc::driver
