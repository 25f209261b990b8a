// Linear attention, convolutions over a few positions, states from chunk to chunk. Graph.h does not have them, so that
// the few files that know them include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphRecurrence.h.inc"

namespace ztc::graph {

/// How many positions of rows of `sequence` a chunk of linear attention takes: 64, of short rows a power of two of
/// which they have two. What goes from one chunk to the next is there in the smallest form of a model too.
int64_t chunkOf(int64_t sequence);

/// Heads of keys or queries of which several of values have the same one, as in a state space model: the tensor
/// (B, T, fewer, 1, K) whose heads `value` (B, T, H, K) repeats in place; null where it repeats none.
mlir::Value sharedHeads(mlir::Value value);

} // namespace ztc::graph
