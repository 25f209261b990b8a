// Names of the attributes that say what arguments, results and modules are (see RationaleGraph.md).
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace ztc::graph {

inline constexpr llvm::StringLiteral kRole =
    "graph.role"; ///< argument: tokens, targets, step, position, parameter, gradient, state, master, ...
inline constexpr llvm::StringLiteral kName = "graph.name";     ///< argument or result: checkpoint name
inline constexpr llvm::StringLiteral kResult = "graph.result"; ///< result: loss, gradient, logits, ...
inline constexpr llvm::StringLiteral kSource = "graph.source"; ///< parameter: where its bytes are
inline constexpr llvm::StringLiteral kState =
    "graph.state"; ///< argument or result that is a state: its name in the optimizer's rule (Optimizers.h)
inline constexpr llvm::StringLiteral kTied = "graph.tied";        ///< parameter: further checkpoint names
inline constexpr llvm::StringLiteral kFrozen = "graph.frozen";    ///< parameter: no gradient wanted
inline constexpr llvm::StringLiteral kNoDecay = "graph.no_decay"; ///< parameter: no weight decay
inline constexpr llvm::StringLiteral kQuantized =
    "graph.quantized"; ///< frozen parameter: the format, nf4 or int8, in which it is to be stored
inline constexpr llvm::StringLiteral kBucket = "graph.bucket"; ///< after `shard`: symbol of its dist.bucket
inline constexpr llvm::StringLiteral kBatch = "graph.batch";   ///< module attributes, i64
inline constexpr llvm::StringLiteral kSequence = "graph.seq";
inline constexpr llvm::StringLiteral kVocabulary = "graph.vocabulary";
inline constexpr llvm::StringLiteral kPositionLimit = "graph.position_limit";
inline constexpr llvm::StringLiteral kLayers = "graph.layers";
inline constexpr llvm::StringLiteral kPrecision = "graph.precision"; ///< fp32, bf16 or fp16, from phase `precision` on

inline constexpr llvm::StringLiteral kOptimizer =
    "graph.optimizer"; ///< whose rule @update follows (Optimizers.h), from phase `backward` on; adamw where absent

/// The string attribute `name` of an argument, or "".
inline llvm::StringRef argString(mlir::func::FuncOp function, unsigned index, llvm::StringRef name) {
  auto attribute = function.getArgAttrOfType<mlir::StringAttr>(index, name);
  return attribute ? attribute.getValue() : llvm::StringRef();
}
inline llvm::StringRef roleOf(mlir::func::FuncOp function, unsigned index) {
  return argString(function, index, kRole);
}

/// What an argument holds of its parameter, or of the parameters of its bucket: parameter, gradient, master, or the
/// name of a state; of other arguments their role.
inline llvm::StringRef argumentKind(mlir::func::FuncOp function, unsigned index) {
  llvm::StringRef kind = argString(function, index, kState);
  if (!kind.empty())
    return kind;
  kind = roleOf(function, index);
  (void)kind.consume_back("_bucket");
  return kind;
}
/// The same of a result: gradient, reduced_gradient, the name of a state, loss, ...; "" where nothing says it.
inline llvm::StringRef resultKind(mlir::func::FuncOp function, unsigned index) {
  for (llvm::StringRef name : {llvm::StringRef(kState), llvm::StringRef(kResult)})
    if (auto attribute = function.getResultAttrOfType<mlir::StringAttr>(index, name))
      return attribute.getValue();
  return {};
}

/// Indices of the arguments with this role, in order.
inline llvm::SmallVector<unsigned> argumentsWithRole(mlir::func::FuncOp function, llvm::StringRef role) {
  llvm::SmallVector<unsigned> indices;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (roleOf(function, i) == role)
      indices.push_back(i);
  return indices;
}
inline bool isFrozen(mlir::func::FuncOp function, unsigned index) {
  return function.getArgAttr(index, kFrozen) != nullptr;
}

} // namespace ztc::graph
