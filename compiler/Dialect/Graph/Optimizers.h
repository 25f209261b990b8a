// Optimizers by name: what an update does to a parameter and its states, as formulas.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/StepParameters.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>
#include <limits>
#include <string>

namespace ztc::graph {

/// `decayed` of an update of which every element is, however long: such updates are one kernel.
inline constexpr int64_t kAllDecayed = std::numeric_limits<int64_t>::max();

/// What the rule of an optimizer reads: flat tensors of one length, in the type in which updates are computed (f32; f64
/// for f64).
struct OptimizerTerms {
  Expr parameter; ///< the master where there is one
  Expr gradient;  ///< unscaled and clipped
  llvm::SmallVector<Expr> states;
  /// A number of the step in every element; bias corrections and the learning rate of this step are among them.
  std::function<Expr(StepParameter)> hyper;
  /// `with()` in elements that have weight decay, `without` in the others; `with` is called only where some have.
  std::function<Expr(llvm::function_ref<Expr()> with, const Expr &without)> whereDecayed;
  /// What each element's change is multiplied by beside the learning rate, of a rule that orthogonalizes.
  std::function<Expr()> changeFactor = {};

  /// The parameter after decoupled weight decay, parameter * (1 - lr * decay) where an element is decayed (Loshchilov
  /// and Hutter 2019).
  Expr decayed() const;
  /// The gradient with coupled weight decay, gradient + decay * parameter where an element is decayed.
  Expr decayedGradient() const;
};

struct OptimizerUpdate {
  llvm::SmallVector<Expr> states;
  Expr parameter;
};

/// Something that an optimizer keeps of each element. It begins at zero.
struct OptimizerState {
  OptimizerState(const char *name, bool isSigned = true) : name(name), isSigned(isSigned) {}

  std::string name; ///< of its files in checkpoints, and of slots and arguments: lower-case letters, digits and _
  bool isSigned;    ///< whether it may be negative
};

/// An optimizer. Everything around its rule is done for it: loss scale, clipping, which parameters have weight decay,
/// masters, how states are stored, ZeRO stages, steps that are skipped.
struct OptimizerRule {
  std::string name; ///< of `--optimizer=NAME`
  llvm::SmallVector<OptimizerState> states;
  unsigned flops = 0; ///< for each element
  /// Emits the states' new values first, then the parameter's: states are stored while the rest is computed.
  std::function<OptimizerUpdate(const OptimizerTerms &)> update;
  /// Whether a small change of the gradient changes the update little. By a sign it does not: elements whose gradient
  /// is nearly zero go one way or the other.
  bool isContinuous = true;
  /// Whether it is for matrices alone, as Muon: graph.momentum_direction keeps the states, graph.orthogonalize makes
  /// the direction of each matrix orthogonal, and `update` reads that as its gradient and has no states. Every
  /// other parameter follows adamw.
  bool orthogonalizes = false;

  /// How many states graph.optimizer_step has.
  size_t statesOfStep() const { return orthogonalizes ? 0 : states.size(); }
  /// The state of this name; null where there is none.
  const OptimizerState *state(llvm::StringRef stateName) const;
};

/// Adds an optimizer. Fails, with a message to stderr, where its name is taken, or the name of a state is none or
/// stands twice.
llvm::LogicalResult registerOptimizer(OptimizerRule rule);

/// The optimizer of this name (adamw, lion, muon and sgd are always there); null where none is registered.
const OptimizerRule *findOptimizer(llvm::StringRef name);

/// The optimizer whose rule @update of a module follows: what graph.optimizer names, adamw where it names none.
const OptimizerRule &optimizerOf(mlir::ModuleOp module);
/// The rule of a parameter: adamw's where the module's optimizer orthogonalizes and the parameter is not one of its
/// matrices (kChangeFactor, Rates.h).
const OptimizerRule &optimizerOf(mlir::ModuleOp module, bool isMatrix);

/// All states that parameters of a module may have, each name once: those of the rule for other parameters than
/// matrices first.
llvm::SmallVector<OptimizerState> statesOf(mlir::ModuleOp module);

/// The state of this name, whichever optimizer has it; if several have one, one that is never negative, where there is
/// such a one. Null where none has it.
const OptimizerState *findState(llvm::StringRef name);

/// How Muon makes matrices orthogonal (graph.orthogonalize): X = a X + (b A + c A A) X with A = X X^T, so many times.
struct NewtonSchulz {
  static constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  static constexpr double smallestNorm = 1e-7;
  static constexpr int steps = kNewtonSchulzSteps;
};

/// All names, in order.
llvm::SmallVector<std::string> optimizerNames();

} // namespace ztc::graph
