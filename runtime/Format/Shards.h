// How a bucket is cut into the shards of W ranks: one formula for sizes, kernels, checkpoints and collectives.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ztc {

/// Shards are whole multiples of this many elements (q of SizeForm).
inline constexpr uint64_t kShardQuantum = 64;

/// Elements of one rank's shard of a bucket of `elements`, padding included.
constexpr uint64_t shardElements(uint64_t elements, uint64_t world) {
  const uint64_t quantum = world * kShardQuantum;
  return (elements + quantum - 1) / quantum * kShardQuantum;
}

/// Elements [start, start + length) of a bucket; length 0 where a rank has padding only.
struct ShardRange {
  uint64_t start = 0;
  uint64_t length = 0;
};

/// What rank `rank` owns of a bucket of `elements`, padding left out.
constexpr ShardRange shardRange(uint64_t elements, uint64_t world, uint64_t rank) {
  const uint64_t shard = shardElements(elements, world);
  const uint64_t start = std::min(elements, shard * rank);
  return {start, std::min(shard, elements - start)};
}

} // namespace ztc
