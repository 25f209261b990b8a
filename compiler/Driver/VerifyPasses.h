// `ztc compile --verify`: a small form of the model goes through phases `import` to `schedule`, and each pass is held
// to what it promised to keep.
#pragma once
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Plugin.h"
#include "compiler/Support/Formats.h"
#include "compiler/Verification/StepVerifier.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace ztc::driver {

/// Follows the passes of one session.
class PassVerifier {
public:
  /// Where a pass fails, the module before it is written to `reproducer`.<pass>.mlir; `plugins` are the libraries to
  /// name in the command that runs it again.
  PassVerifier(const PhaseHooks &hooks, std::string reproducer, std::vector<std::string> plugins)
      : hooks(hooks), reproducer(std::move(reproducer)), plugins(std::move(plugins)) {}

  /// How a copy of a step whose gradients are not there yet gets them, by ztc's own passes.
  using Differentiate = std::function<llvm::LogicalResult(mlir::ModuleOp copy)>;
  void differentiateBy(Differentiate rest) { differentiate = std::move(rest); }

  /// The module has been imported. `statesInBlocks`: the optimizer's states will be stored in 8 bits.
  void begin(mlir::ModuleOp module, bool statesInBlocks) { verifier.emplace(module, statesInBlocks); }
  /// To be added to the pass manager of `phase`.
  std::unique_ptr<mlir::PassInstrumentation> instrumentation(Phase phase, StoragePrecision precision);
  /// After the passes of a phase have run. Fails, with a message to stderr, where one of them broke its promise.
  llvm::LogicalResult endPhase(Phase phase, mlir::ModuleOp module, StoragePrecision precision);

  /// Passes that were looked at, and how many of them are plugins'.
  unsigned passes = 0, pluginPasses = 0;
  const verification::StepVerifier &step() const { return *verifier; }
  bool hasBegun() const { return verifier.has_value(); }
  /// The module after phase `backward`; null where that was not reached, or a plugin's pass after it has changed on
  /// purpose what the step computes. What passes of ztc's own change after it (weights in fewer bits) is changed in
  /// it too.
  mlir::ModuleOp reference() const { return changedLate || !afterBackward ? mlir::ModuleOp() : *afterBackward; }

private:
  class Instrumentation;
  /// A pass that has run, with the step as it found it.
  struct Ran {
    std::string who, name, pipeline;
    bool isPlugins = false;
    mlir::OwningOpRef<mlir::ModuleOp> before;
  };
  /// Says what is wrong; `ran` is null where no pass is known to be to blame.
  void report(const std::string &who, const Ran *ran, const verification::StepDifference &difference,
              llvm::StringRef what);
  /// The pass with which gradients became wrong: that of ztc-differentiate where they are so without any other.
  const Ran *firstWithWrongGradients(mlir::ModuleOp after);
  /// A pass after phase `backward` changes on purpose what the step computes: it is applied to the reference too. Null
  /// for a pass of a plugin, which may not apply to the reference.
  void changeReference(mlir::Pass *pass);

  const PhaseHooks &hooks;
  std::string reproducer;
  std::vector<std::string> plugins;
  Differentiate differentiate;
  std::optional<verification::StepVerifier> verifier;
  std::vector<Ran> history; ///< of the passes up to where gradients are held against finite differences
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

} // namespace ztc::driver
