// Linear attention and convolutions over a few positions. Graph.h does not have them, so that the few files that know
// them include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphRecurrence.h.inc"

namespace ztc::graph {

/// How many positions of rows of `sequence` a chunk of linear attention takes: a power of two, 64 where rows are short
/// enough, so that no row has more than 32 chunks, which the compiler writes out one after the other; from 64 * 32 to
/// 256 * 32 positions as many as that takes, beyond 256. A row has two chunks at least where it has two positions: what
/// goes from one to the next is there in the smallest form of a model too.
int64_t chunkOf(int64_t sequence);

} // namespace ztc::graph
