// Names of the attributes that say what arguments, results and modules are (see RationaleGraph.md).
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace ztc::graph {

inline constexpr llvm::StringLiteral kEntry = "graph.entry"; ///< function: #graph.entry, what it is called for
inline constexpr llvm::StringLiteral kLayer =
    "graph.layer"; ///< parameter: i64, the transformer block that it belongs to; absent where it is none's

inline constexpr llvm::StringLiteral kRole = "graph.role";     ///< argument: #graph.role, what it is
inline constexpr llvm::StringLiteral kName = "graph.name";     ///< argument or result: checkpoint name
inline constexpr llvm::StringLiteral kResult = "graph.result"; ///< result: #graph.result, what it is
inline constexpr llvm::StringLiteral kSource = "graph.source"; ///< parameter: where its bytes are
inline constexpr llvm::StringLiteral kState =
    "graph.state"; ///< argument or result that is a state: its name in the optimizer's rule (Optimizers.h)
inline constexpr llvm::StringLiteral kTied = "graph.tied";        ///< parameter: further checkpoint names
inline constexpr llvm::StringLiteral kFrozen = "graph.frozen";    ///< parameter: no gradient wanted
inline constexpr llvm::StringLiteral kNoDecay = "graph.no_decay"; ///< parameter: no weight decay
inline constexpr llvm::StringLiteral kQuantized =
    "graph.quantized"; ///< frozen parameter: #graph.weight_format, the format in which it is to be stored
inline constexpr llvm::StringLiteral kQuantizedTransposed =
    "graph.quantized_transposed"; ///< with `graph.quantized`: as the transposed matrix, since its rows are inputs
inline constexpr llvm::StringLiteral kBlockStates =
    "graph.block_states"; ///< parameter: the optimizer keeps its states in 8 bits, in blocks of 256 (block8)
inline constexpr llvm::StringLiteral kBucket = "graph.bucket"; ///< after `shard`: symbol of its dist.bucket
inline constexpr llvm::StringLiteral kBatch = "graph.batch";   ///< module attributes, i64
inline constexpr llvm::StringLiteral kSequence = "graph.seq";
inline constexpr llvm::StringLiteral kVocabulary = "graph.vocabulary";
inline constexpr llvm::StringLiteral kPositionLimit = "graph.position_limit";
inline constexpr llvm::StringLiteral kLayers = "graph.layers";
inline constexpr llvm::StringLiteral kLossWeights =
    "graph.loss_weights"; ///< unit: the imported graph has an input of loss weights, so @eval takes some
inline constexpr llvm::StringLiteral kPrecision = "graph.precision"; ///< fp32, bf16 or fp16, from phase `precision` on

inline constexpr llvm::StringLiteral kOptimizer =
    "graph.optimizer"; ///< whose rule @update follows (Optimizers.h), from phase `backward` on; adamw where absent

/// The string attribute `name` of an argument, or "".
inline llvm::StringRef argString(mlir::func::FuncOp function, unsigned index, llvm::StringRef name) {
  auto attribute = function.getArgAttrOfType<mlir::StringAttr>(index, name);
  return attribute ? attribute.getValue() : llvm::StringRef();
}
/// What an argument is; nothing where it has no role.
inline std::optional<Role> roleOf(mlir::func::FuncOp function, unsigned index) {
  auto role = function.getArgAttrOfType<RoleAttr>(index, kRole);
  return role ? std::optional(role.getValue()) : std::nullopt;
}
/// What a result is; nothing where it is not marked.
inline std::optional<ResultKind> resultOf(mlir::func::FuncOp function, unsigned index) {
  auto kind = function.getResultAttrOfType<ResultKindAttr>(index, kResult);
  return kind ? std::optional(kind.getValue()) : std::nullopt;
}
/// Whether an argument of this role is a whole bucket, or a shard of one, instead of a single tensor.
inline bool isBucket(std::optional<Role> role) {
  return role == Role::ParameterBucket || role == Role::GradientBucket || role == Role::StateBucket ||
         role == Role::MasterBucket;
}
/// The entries of an argument's or a result's attributes.
inline mlir::NamedAttribute namedRole(mlir::MLIRContext *context, Role role) {
  return {mlir::StringAttr::get(context, kRole), RoleAttr::get(context, role)};
}
inline mlir::NamedAttribute namedResult(mlir::MLIRContext *context, ResultKind kind) {
  return {mlir::StringAttr::get(context, kResult), ResultKindAttr::get(context, kind)};
}

/// What an argument holds of its parameter, or of the parameters of its bucket: parameter, gradient, master, or the
/// name of a state; of other arguments their role.
inline llvm::StringRef argumentKind(mlir::func::FuncOp function, unsigned index) {
  llvm::StringRef kind = argString(function, index, kState);
  if (!kind.empty())
    return kind;
  if (std::optional<Role> role = roleOf(function, index))
    kind = stringifyRole(*role);
  (void)kind.consume_back("_bucket");
  return kind;
}
/// The same of a result: gradient, reduced_gradient, the name of a state, loss, ...; "" where nothing says it.
inline llvm::StringRef resultKind(mlir::func::FuncOp function, unsigned index) {
  if (auto state = function.getResultAttrOfType<mlir::StringAttr>(index, kState))
    return state.getValue();
  std::optional<ResultKind> kind = resultOf(function, index);
  return kind ? stringifyResultKind(*kind) : llvm::StringRef();
}

/// Indices of the arguments with this role, in order.
inline llvm::SmallVector<unsigned> argumentsWithRole(mlir::func::FuncOp function, Role role) {
  llvm::SmallVector<unsigned> indices;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (roleOf(function, i) == role)
      indices.push_back(i);
  return indices;
}
inline bool isFrozen(mlir::func::FuncOp function, unsigned index) {
  return function.getArgAttr(index, kFrozen) != nullptr;
}

/// Which entry of the training program `function` is; nothing for a helper function.
inline std::optional<Entry> entryOf(mlir::func::FuncOp function) {
  auto entry = function->getAttrOfType<EntryAttr>(kEntry);
  return entry ? std::optional(entry.getValue()) : std::nullopt;
}
inline bool isEntry(mlir::func::FuncOp function, Entry entry) {
  return entryOf(function) == entry;
}
/// Makes `function` an entry, and names it after it.
inline void setEntry(mlir::func::FuncOp function, Entry entry) {
  function->setAttr(kEntry, EntryAttr::get(function.getContext(), entry));
  function.setName(stringifyEntry(entry));
}
/// The module's function that is this entry; null where it has none.
inline mlir::func::FuncOp findEntry(mlir::ModuleOp module, Entry entry) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    if (isEntry(function, entry))
      return function;
  return nullptr;
}

} // namespace ztc::graph
