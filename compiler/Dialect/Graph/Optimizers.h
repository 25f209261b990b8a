// Optimizers by name: what an update does to a parameter and its states, as formulas.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Format/StepParameters.h"
#include <functional>
#include <string>

namespace ztc::graph {

/// What the rule of an optimizer reads: flat tensors of one length, in the type in which updates are computed (f32; f64
/// for f64).
struct OptimizerTerms {
  Expr parameter; ///< the master where there is one
  /// After decoupled weight decay, parameter * (1 - lr * decay) where an element is decayed (Loshchilov and Hutter
  /// 2019).
  Expr decayed;
  Expr gradient; ///< unscaled and clipped
  llvm::SmallVector<Expr> states;
  /// A number of the step in every element; bias corrections and the learning rate of this step are among them.
  std::function<Expr(StepParameter)> hyper;
};

struct OptimizerUpdate {
  llvm::SmallVector<Expr> states;
  Expr parameter;
};

/// An optimizer. Everything around its rule is done for it: loss scale, clipping, weight decay for the parameters that
/// have some, masters, states in bf16, ZeRO stages, steps that are skipped.
struct OptimizerRule {
  std::string name; ///< of `--optimizer=NAME`
  /// What it keeps of each element, as checkpoints call it: "exp_avg", "exp_avg_sq", in this order.
  llvm::SmallVector<std::string> states;
  unsigned flops = 0; ///< for each element
  /// Emits the states' new values first, then the parameter's: states are stored while the rest is computed.
  std::function<OptimizerUpdate(const OptimizerTerms &)> update;
};

/// Adds an optimizer. Fails, with a message to stderr, where its name is taken or a state has another name than those
/// above.
llvm::LogicalResult registerOptimizer(OptimizerRule rule);

/// The optimizer of this name ("adamw" is always there); null where none is registered.
const OptimizerRule *findOptimizer(llvm::StringRef name);

/// The optimizer whose rule @update of a module follows: what graph.optimizer names, adamw where it names none.
const OptimizerRule &optimizerOf(mlir::ModuleOp module);

/// All names, in order.
llvm::SmallVector<std::string> optimizerNames();

} // namespace ztc::graph
