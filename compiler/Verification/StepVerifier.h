// Holds a step, after each pass, against what it computed before: loss, logits, gradients, weights after an update.
#pragma once
#include "compiler/Support/Formats.h"
#include "compiler/Verification/Keeps.h"
#include "compiler/Verification/StepValues.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringMap.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::verification {

/// How far rounding moves a number of a plan in this precision at most, relatively.
double unitOf(StoragePrecision precision);

/// Which values differ: "@microstep: the loss ...".
struct StepDifference {
  std::string text;
  bool isGradient = false; ///< of @microstep, which is not the derivative of @eval
};

/// Follows one module through the phases `import` to `schedule`. In f64, where nothing is rounded, all values of all
/// functions stay as they were to 1e-9, on one rank after each pass and on 2 and 3 ranks at the end of a phase.
class StepVerifier {
public:
  /// `module` has been imported. `statesInBlocks` as StepInputs has it.
  explicit StepVerifier(mlir::ModuleOp module, bool statesInBlocks = false);

  /// After a pass, which promised `keeps`: what has changed, or nothing. Functions that came with it are followed from
  /// here on. `before`, the module as the pass found it, is read for Keeps::Bits.
  std::optional<StepDifference> afterPass(mlir::ModuleOp module, Keeps keeps, mlir::ModuleOp before = {});
  /// What a pass may break that one rank without rounding does not show: values on 2 and 3 ranks, and what rounding
  /// costs.
  std::optional<StepDifference> onRanksAndRounded(mlir::ModuleOp module, StoragePrecision precision);
  /// At the end of a phase: the same, on several ranks too; where @eval and @microstep are new, that they follow from
  /// @forward and @eval; and that rounding costs no more than before.
  std::optional<StepDifference> afterPhase(mlir::ModuleOp module, StoragePrecision precision);

  /// Holds the gradients of @microstep, which has been followed, against finite differences of @eval.
  std::optional<StepDifference> wrongGradient(mlir::ModuleOp module);

  /// What could not be looked at, each with the reason.
  const std::vector<std::string> &notChecked() const { return gaps; }
  /// How many values are held.
  size_t values() const;
  /// Whether gradients were held against finite differences, and values on several ranks against those of one.
  bool checkedGradients() const { return gradientsChecked; }
  bool checkedRanks() const { return ranksChecked; }
  /// Functions that were followed and are no longer there.
  std::vector<std::string> gone(mlir::ModuleOp module) const;

private:
  static constexpr unsigned kMostRanks = 3;

  std::optional<NamedValues> evaluate(mlir::ModuleOp module, llvm::StringRef function, Precision precision,
                                      unsigned world);
  /// What @microstep gives, and @update makes of its gradients: what one function computes where updates are in the
  /// backward.
  std::optional<NamedValues> evaluateJoined(mlir::ModuleOp module, unsigned world);
  std::optional<StepDifference> compareFunction(mlir::ModuleOp module, llvm::StringRef name, Keeps keeps,
                                                mlir::ModuleOp before);
  std::optional<StepDifference> compareOnRanks(mlir::ModuleOp module, llvm::StringRef name, unsigned world);
  std::optional<StepDifference> compareRounding(mlir::ModuleOp module, StoragePrecision precision);
  std::optional<StepDifference> checkLossOfLogits(mlir::ModuleOp module);
  void addGap(std::string text);

  StepInputs inputs;
  llvm::StringMap<NamedValues> expected;                        ///< by function, of the first batch
  llvm::StringMap<NamedValues> expectedOnRanks[kMostRanks + 1]; ///< by number of ranks, then function
  llvm::StringMap<std::vector<mlir::OperationFingerPrint>> lastSeen;
  bool lossChecked = false, gradientsChecked = false, ranksChecked = false;
  double rounding =
      -1; ///< how far rounding moves loss and gradients, at the end of phase `precision`, and where codes came in
  double sensitivity = 0; ///< how far weights do that are a quarter of a rounding off
  bool hasCodes = false;  ///< products of that step read codes of 8 bits
  std::vector<std::string> gaps;
  std::string failure; ///< the diagnostic of the last evaluation that failed
};

} // namespace ztc::verification
