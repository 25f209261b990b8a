// How a bucket is cut into the shards of W ranks: one formula for sizes, kernels, checkpoints and collectives.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ztc {

/// Shards are whole multiples of this many elements (q of SizeForm), unless their bucket says otherwise.
inline constexpr uint64_t kShardQuantum = 64;

/// q of a bucket or a size form that says `quantum`, 0 where it says nothing.
constexpr uint64_t shardQuantum(uint64_t quantum) {
  return quantum ? quantum : kShardQuantum;
}

/// Elements of one rank's shard of a bucket of `elements`, padding included. `quantum` as in the bucket; 0: 64.
constexpr uint64_t shardElements(uint64_t elements, uint64_t world, uint64_t quantum = 0) {
  const uint64_t unit = shardQuantum(quantum), row = world * unit;
  return (elements + row - 1) / row * unit;
}

/// Elements [start, start + length) of a bucket; length 0 where a rank has padding only.
struct ShardRange {
  uint64_t start = 0;
  uint64_t length = 0;
};

/// What rank `rank` owns of a bucket of `elements`, padding left out.
constexpr ShardRange shardRange(uint64_t elements, uint64_t world, uint64_t rank, uint64_t quantum = 0) {
  const uint64_t shard = shardElements(elements, world, quantum);
  const uint64_t start = std::min(elements, shard * rank);
  return {start, std::min(shard, elements - start)};
}

} // namespace ztc
