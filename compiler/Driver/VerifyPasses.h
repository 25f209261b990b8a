// `ztc compile --verify`: a small form of the model goes through phases `import` to `schedule`, and each pass is held
// to what it promised to keep.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"
#include "compiler/Verification/StepVerifier.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace ztc {

/// Follows the passes of one session.
class PassVerifier {
public:
  /// Where a pass fails, the module before it is written to `reproducer`.<pass>.mlir; `plugins` are the libraries to
  /// name in the command that runs it again.
  PassVerifier(const PhaseHooks &hooks, std::string reproducer, std::vector<std::string> plugins)
      : hooks(hooks), reproducer(std::move(reproducer)), plugins(std::move(plugins)) {}

  /// The module has been imported.
  void begin(mlir::ModuleOp module) { verifier.emplace(module); }
  /// To be added to the pass manager of `phase`.
  std::unique_ptr<mlir::PassInstrumentation> instrumentation(Phase phase, llvm::StringRef precision);
  /// After the passes of a phase have run. Fails, with a message to stderr, where one of them broke its promise.
  llvm::LogicalResult endPhase(Phase phase, mlir::ModuleOp module, llvm::StringRef precision);

  /// Passes that were looked at, and how many of them are plugins'.
  unsigned passes = 0, pluginPasses = 0;
  const StepVerifier &step() const { return *verifier; }
  bool hasBegun() const { return verifier.has_value(); }
  /// The module after phase `backward`; null where that was not reached, or a pass behind it has changed on purpose
  /// what the step computes.
  mlir::ModuleOp reference() const { return changedLate || !afterBackward ? mlir::ModuleOp() : *afterBackward; }

private:
  class Instrumentation;
  void report(const std::string &who, const mlir::Pass *pass, const StepDifference &difference, mlir::ModuleOp before,
              const std::string &pipeline);

  const PhaseHooks &hooks;
  std::string reproducer;
  std::vector<std::string> plugins;
  std::optional<StepVerifier> verifier;
  mlir::OwningOpRef<mlir::ModuleOp> afterBackward;
  bool changedLate = false;
  bool broken = false;
};

/// Compiles a small form of what `options` describe up to phase `schedule`, and verifies each pass. Prints what was
/// verified and what could not be; returns the exit status.
int verifyPasses(const CompileOptions &options);

/// Holds the functions of one file of IR against those of another, of the same names: 0 where they compute the same, 1
/// where not, with a message to stderr, 2 where a file cannot be read.
int compareSteps(mlir::DialectRegistry &registry, const std::string &one, const std::string &other);

} // namespace ztc
