// The selective scan. Graph.h does not have it, so that the few files that know it include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/ScanSizes.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphScan.h.inc"

namespace ztc::graph {

class LinearAttentionOp;

/// Computes `op` by a graph.selective_scan and returns its results, y and the last state (null where that is unused).
/// `op` must have no delta rule and no past, one head of keys and one of queries for all heads, one value a head, and
/// a decay that is the product of a number for each head and position (B, T, H, 1) and a rate for each head and row
/// (H, K), possibly masked by position. Returns nothing otherwise, and where elements are not f32, where the last state
/// may need a derivative, or where the scan does not support the sizes.
std::optional<llvm::SmallVector<mlir::Value>> asSelectiveScan(LinearAttentionOp op, mlir::OpBuilder &builder);

} // namespace ztc::graph
