// What is computed again for the backward part instead of being kept: how it is marked, and what it costs.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>

namespace ztc {

/// Unit attribute of a forward op whose results the backward part does not read: it reads those of a clone.
inline constexpr llvm::StringLiteral kRecomputed = "graph.recomputed";
/// Unit attribute of such a clone, and of a group that holds nothing else.
inline constexpr llvm::StringLiteral kRecomputation = "graph.recomputation";

/// The op that computes a function's loss or logits, its first result: the backward part is what stands after it.
mlir::Operation *lossOpOf(mlir::func::FuncOp function);

/// Whether an op after `lossOp` reads `value`, itself or an alias of it.
bool isReadByBackward(mlir::Value value, mlir::Operation *lossOp);

/// Bytes that the forward part computes and the backward part of `function` reads, by transformer block (-1: in none).
/// A value belongs to the block that computes it, the residual stream to the one before its readers.
std::map<int64_t, uint64_t> savedBytes(mlir::func::FuncOp function);

/// Floating-point operations of all clones of a module, in one micro-step.
int64_t recomputeFlops(mlir::ModuleOp module);

} // namespace ztc
