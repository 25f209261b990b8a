// Linear attention and convolutions over a few positions. Graph.h does not have them, so that the few files that know
// them include this.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphRecurrence.h.inc"

namespace ztc::graph {

/// How many positions of rows of `sequence` a chunk of linear attention takes: a power of two, 64 where no row then has
/// more than 64 chunks, which the compiler writes out one after the other; of longer rows as many as that takes, up to
/// 256. Of 8192 positions chunks of 64, 128 and 256 keep 6.7, 8.9 and 13.3 GiB for the backward of a small model, 0.5,
/// 0.6 and 0.9 GiB where layers are computed again, in 57, 33 and 22 thousand steps. A row has two chunks at least
/// where it has two positions: what goes from one to the next is there in the smallest form of a model too.
int64_t chunkOf(int64_t sequence);

} // namespace ztc::graph
