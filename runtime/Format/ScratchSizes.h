// Sizes of the scratch operands that library calls want: one formula for the compiler, which plans them, and the
// device, which uses them.
#pragma once
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

} // namespace ztc
