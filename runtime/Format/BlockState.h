// An optimizer's state in 8 bits: blocks of 256 elements, each with its scale, as bitsandbytes keeps it (Dettmers et
// al. 2022, "8-bit Optimizers via Block-wise Quantization").
//
// A record is 256 codes, then the largest magnitude of the block as f32. Code c stands for values[c] * magnitude, where
// values are those of a dynamic map: seven decades with 1, 2, 4, ..., 64 (never negative: 2, 4, ..., 128) steps each,
// and 0 and 1. Rounding is bitsandbytes' rule for every device ("default" of quantize_blockwise): x * (1 / magnitude),
// and the code whose value is nearest; between two it is the lower. Its library for CPUs finds codes in a table of
// 65536 equal steps instead, which sees nothing below 1.5e-5 of the magnitude; that is not done here.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ztc {

/// Whether elements of this type are optimizer states in such records.
bool isBlockState(plan::DataType type);

/// Bytes of a rank's own shard of a slot of form SHARD or FULL that has been checked.
uint64_t ownShardBytes(const plan::SizeForm &size, uint64_t world);

/// Elements of a block; tensors begin at multiples of it in their bucket, and so do shards.
inline constexpr uint64_t kStateBlock = 256;
/// Bytes of a block's record: the codes, then the magnitude.
inline constexpr uint64_t kStateBlockBytes = kStateBlock + sizeof(float);
/// Tensors of fewer elements keep their states in f32, as bitsandbytes' min_8bit_size.
inline constexpr uint64_t kSmallestBlockState = 4096;
/// A smaller magnitude divides as if it were this one.
inline constexpr float kSmallestMagnitude = 1e-38f;

/// bitsandbytes' create_dynamic_map: what codes stand for, ascending, and the number above which the next code is
/// nearer.
struct DynamicMap {
  std::array<float, 256> values;
  std::array<float, 255> bounds;

  /// The code of x / magnitude: how many bounds lie below it. Of what is not a number it is 0.
  uint8_t code(float normalised) const;
};

/// The map of states that may be negative, or of those that never are.
const DynamicMap &stateMap(bool isSigned);

/// The largest magnitude of `values`; NaN where one is.
float largestMagnitude(std::span<const float> values);

/// What a block's elements are multiplied by in front of the map.
float inverseMagnitude(float magnitude);

/// Codes of up to 256 `values`, and the rest of the block as zeros, into the record at `record` (kStateBlockBytes).
void encodeStateBlock(std::span<const float> values, bool isSigned, std::byte *record);

/// The first numbers of the record at `record`.
void decodeStateBlock(const std::byte *record, bool isSigned, std::span<float> values);

/// `values` as they are after a round through blocks, the first of which begins at values[0].
void roundThroughBlocks(std::span<float> values, bool isSigned);

} // namespace ztc
