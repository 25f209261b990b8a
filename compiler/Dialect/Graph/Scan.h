// The selective scan. Graph.h does not have it, so that the few files that know it include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/ScanSizes.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphScan.h.inc"

namespace ztc::graph {

class LinearAttentionOp;

/// What `op` gives, y and the last state (null: nobody wants it), by a graph.selective_scan: where it has no delta rule
/// and no past, all heads read one of keys and one of queries, each has one value, and the decay is the product of a
/// number of each head and position (B, T, H, 1) and a rate of each head and row (H, K), some positions left out.
/// Nothing where it is otherwise, where numbers are not f32, where a derivative of the last state may be asked for, or
/// for sizes that the scan does not take.
std::optional<llvm::SmallVector<mlir::Value>> asSelectiveScan(LinearAttentionOp op, mlir::OpBuilder &builder);

} // namespace ztc::graph
