// Sizes of the scratch operands that library calls want: one formula for the compiler, which plans them, and the device,
// which uses them.
#pragma once
#include <cstdint>

namespace ztc {

/// Rows of scores lie this many floats apart at least, so that each starts on a cache line.
inline constexpr uint64_t kScratchRowAlignment = 64;

constexpr uint64_t alignedScratchRow(uint64_t elements) {
  return (elements + kScratchRowAlignment - 1) / kScratchRowAlignment * kScratchRowAlignment;
}

/// Bytes that one worker thread needs for attention: `block` query rows of scores over the `seq` columns, in f32.
/// The gradient keeps the scores, their cotangents and one float per row (delta). A PER_THREAD slot of this size.
constexpr uint64_t attentionScratchBytes(uint64_t seq, uint64_t block, bool grad) {
  uint64_t scores = block * alignedScratchRow(seq);
  return 4 * (grad ? 2 * scores + alignedScratchRow(block) : scores);
}

/// Bytes of linear_cross_entropy's scratch: the logits of one chunk (chunk, vocabulary) and one loss per row, in f32.
/// One slot for all threads.
constexpr uint64_t linearCrossEntropyScratchBytes(uint64_t chunk, uint64_t vocabulary) {
  return 4 * (chunk * vocabulary + alignedScratchRow(chunk));
}

} // namespace ztc
