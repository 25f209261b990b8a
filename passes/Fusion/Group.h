// Makes a graph.fusion out of ops.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

namespace ztc {

/// Moves `ops` (of one block, in order) into a new group at the place of the last one and returns it. Its inputs are
/// the values that the ops read from outside, in order of first use, without splat constants (those are cloned into the
/// group); its outputs are the results that are read outside.
graph::FusionOp groupOps(llvm::ArrayRef<mlir::Operation *> ops, llvm::StringRef name, graph::FusionKind kind);

/// True for a constant that every group makes for itself.
bool isSplatConstant(mlir::Value value);

} // namespace ztc
