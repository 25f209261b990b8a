// Helpers with which the passes of this folder build one function of the module from another.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// This entry of the module; null, after a located diagnostic, where it is missing or has no body.
mlir::func::FuncOp findFunction(mlir::ModuleOp module, graph::Entry entry);

/// A copy of `function` that is the entry `entry`, named after it, at the end of the module.
mlir::func::FuncOp cloneFunction(mlir::func::FuncOp function, graph::Entry entry);

/// Inserts an argument with a role, before argument `index`.
mlir::BlockArgument insertArgument(mlir::func::FuncOp function, unsigned index, mlir::Type type, graph::Role role);

/// One result of a function under construction; `name` is empty for results that have no checkpoint name.
struct NamedResult {
  mlir::Value value;
  graph::ResultKind result;
  llvm::StringRef name = {};
  llvm::StringRef state = {}; ///< of a result `state`: which one
  bool isWide = false;        ///< f32 in every precision
};

/// Replaces what the function returns, its result types and result attributes.
void setResults(mlir::func::FuncOp function, llvm::ArrayRef<NamedResult> results);

/// How a forward function makes its logits: `logits` = [reshape of] cap(scale * matmul(hidden (T, D), head (V, D),
/// transpose_b)), cap(x) = softcap * tanh(x / softcap) where softcap is not 0. `product` is null where they come about
/// in another way.
struct LogitsRoot {
  mlir::Value logits;           ///< (B, S, V) or (T, V)
  ztc::graph::MatmulOp product; ///< of rank 2
  double scale = 1.0, softcap = 0.0;
};

/// Finds the logits of a forward function (or a clone of one); fails with a located diagnostic where it returns no
/// logits.
llvm::FailureOr<LogitsRoot> findLogits(mlir::func::FuncOp function);

/// `value` under another static shape of equal element count (itself where it has that shape).
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> shape);

/// What `value` is a reshaped form of; itself where it is none.
mlir::Value withoutReshapes(mlir::Value value);

/// The indices by which a function looks up the rows of its positions: the argument itself, or what is computed of it
/// where there are several. Null where it looks up none.
mlir::Value positionIndices(mlir::func::FuncOp function, mlir::Value position);

/// Erases ops without uses, last first: what a replaced root leaves behind.
void eraseDeadOps(mlir::Block &block);

} // namespace ztc
