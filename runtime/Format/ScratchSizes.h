// Sizes of the scratch operands that library calls want: one formula for the compiler, which plans them, and the
// device, which uses them.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ztc {

/// Distance of two rows of a scratch matrix of `columns` floats: whole cache lines, and no multiple of 4096 bytes,
/// which would send equal columns of all rows to one set of the first-level cache.
constexpr uint64_t scratchRowElements(uint64_t columns) {
  uint64_t elements = (columns + 15) / 16 * 16;
  return elements % 1024 == 0 ? elements + 16 : elements;
}

/// Bytes of `elements` floats, in whole units of the arena's alignment (256).
constexpr uint64_t scratchBytes(uint64_t elements) {
  return (elements * 4 + 255) / 256 * 256;
}

/// Query rows of one block of attention where nothing else asks for another number: the fastest of 32, 64, 128 and 256
/// on AVX2 (tests/bench/bench-host-device.cpp). Larger blocks compute more above the diagonal, smaller ones call more.
constexpr uint64_t defaultAttentionBlock(uint64_t seq) {
  uint64_t block = seq < 2048 ? 64 : 128;
  return seq < block ? seq : block;
}

/// Bytes that one worker thread needs for attention: `block` query rows of scores over the `seq` columns and one float
/// per row (lse, where nobody wants it). The gradient keeps the scores, their cotangents and one float per row (delta).
/// A PER_THREAD slot of this size.
constexpr uint64_t attentionScratchBytes(uint64_t seq, uint64_t block, bool grad) {
  uint64_t scores = scratchBytes(block * scratchRowElements(seq));
  return grad ? 2 * scores + scratchBytes(block) : scores;
}

/// Bytes of linear_cross_entropy's scratch: the logits of one chunk (chunk, vocabulary) and one loss per row of it.
/// One slot for all threads.
constexpr uint64_t linearCrossEntropyScratchBytes(uint64_t chunk, uint64_t vocabulary) {
  return scratchBytes(chunk * scratchRowElements(vocabulary)) + scratchBytes(chunk);
}

/// How far a tile of a narrow product reaches where the processor has no instruction for its type: panels of A
/// (rows, depth) and B (depth, columns) are widened to f32, the tile of C (rows, columns) is added up in f32 and
/// rounded once. Constants, not functions of T: bits do not depend on it.
struct WidenedTile {
  uint64_t rows = 256, columns = 256, depth = 512;
};

/// Floats of a widened panel of `rows` by `depth`, in either orientation.
constexpr uint64_t widenedPanelElements(uint64_t rows, uint64_t depth) {
  return std::max(rows * scratchRowElements(depth), depth * scratchRowElements(rows));
}

/// Bytes that one worker thread needs for a product (m, n, k) with bf16 or f16 operands: a panel of each operand, in
/// either orientation, and a tile of the result. A PER_THREAD slot of this size.
constexpr uint64_t matmulScratchBytes(uint64_t m, uint64_t n, uint64_t k, WidenedTile tile = {}) {
  const uint64_t rows = std::min(m, tile.rows), columns = std::min(n, tile.columns), depth = std::min(k, tile.depth);
  return scratchBytes(widenedPanelElements(rows, depth)) + scratchBytes(widenedPanelElements(columns, depth)) +
         scratchBytes(rows * scratchRowElements(columns));
}

/// The same as attentionScratchBytes for bf16 and f16: beside the scores, rows of q, k and v of one head as f32. The
/// gradient keeps k, v, dk, dv of the whole sequence and q, dout, dq of a block.
constexpr uint64_t narrowAttentionScratchBytes(uint64_t seq, uint64_t headDim, uint64_t block, bool grad) {
  const uint64_t whole = scratchBytes(seq * headDim), rows = scratchBytes(block * headDim);
  return attentionScratchBytes(seq, block, grad) + (grad ? 4 * whole + 3 * rows : whole + rows);
}

/// Bytes that one worker thread needs for the products of linear_cross_entropy in bf16 and f16: a further operand of
/// its own, PER_THREAD, after all others.
constexpr uint64_t linearCrossEntropyPanelBytes(uint64_t chunk, uint64_t width, uint64_t vocabulary) {
  return std::max({matmulScratchBytes(chunk, vocabulary, width), matmulScratchBytes(chunk, width, vocabulary),
                   matmulScratchBytes(vocabulary, width, chunk)});
}

/// What a product of narrow types may take as workspace on a GPU (NVIDIA's advice for cuBLASLt on Hopper).
constexpr uint64_t kGpuProductWorkspaceBytes = uint64_t(32) << 20;

/// Scratch of attention's gradient on a GPU: one float (delta) per row and head. The forward form needs none.
constexpr uint64_t gpuAttentionGradScratchBytes(uint64_t batch, uint64_t seq, uint64_t heads) {
  return scratchBytes(batch * seq * heads);
}

/// Distance of two rows of logits on a GPU, in elements: a multiple of 64, so that products and kernels read and write
/// them in whole vectors whatever the vocabulary is.
constexpr uint64_t gpuLogitStride(uint64_t vocabulary) {
  return (vocabulary + 63) / 64 * 64;
}

/// `tokens` rows in the fewest chunks of at most `most` rows, all of about one size; where that is possible, of whole
/// tiles of 128 rows.
constexpr uint64_t evenChunk(uint64_t tokens, uint64_t most) {
  const uint64_t chunks = (tokens + most - 1) / most, rows = (tokens + chunks - 1) / chunks;
  const uint64_t tiles = (rows + 127) / 128 * 128;
  return tiles <= most && tiles < tokens ? tiles : rows;
}

/// Rows of a chunk of linear_cross_entropy on a GPU where nothing is known of memory: as many as give products that
/// fill it, with at most 512 MiB of logits of `elementBytes` each. With what is free beside the rest of a step the
/// compiler takes more (compiler/Analysis/LossRows.h).
constexpr uint64_t gpuLinearCrossEntropyChunk(uint64_t tokens, uint64_t vocabulary, uint64_t elementBytes) {
  const uint64_t rows = (uint64_t(512) << 20) / (elementBytes * gpuLogitStride(vocabulary));
  return evenChunk(tokens, std::max<uint64_t>(rows, 16));
}

/// Bytes of the logits (chunk, vocabulary) on a GPU, in whole units of the arena's alignment.
constexpr uint64_t gpuLogitBytes(uint64_t chunk, uint64_t vocabulary, uint64_t elementBytes) {
  return (chunk * gpuLogitStride(vocabulary) * elementBytes + 255) / 256 * 256;
}

/// Scratch of linear_cross_entropy on a GPU: the logits of a chunk, and one loss per token.
constexpr uint64_t gpuLinearCrossEntropyScratchBytes(uint64_t chunk, uint64_t tokens, uint64_t vocabulary,
                                                     uint64_t elementBytes) {
  return gpuLogitBytes(chunk, vocabulary, elementBytes) + scratchBytes(tokens);
}

} // namespace ztc
