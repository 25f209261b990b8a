// What a GPU's memory holds beside the arena, before anybody has measured it: asked by the compiler for --mem, and by
// runs whose plan says nothing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ztc {

/// The context, the code of cuBLASLt and cuDNN as far as it is loaded, CUDA graphs, and the buffers of NCCL's channels,
/// of one of `world` ranks on a GPU of this architecture ("sm_90a"). An estimate: runs load their libraries before the
/// arena and say what they measure. 0 for the engine of the tests.
constexpr uint64_t estimatedReserveBytes(std::string_view target, uint32_t world) {
  constexpr uint64_t kMebi = uint64_t(1) << 20;
  if (target == "simt")
    return 0;
  // The context keeps stacks for every thread that all multiprocessors can have: more on those of data centres.
  const bool isForGames = target.starts_with("sm_86") || target.starts_with("sm_89") || target.starts_with("sm_12");
  const uint64_t libraries = (isForGames ? 1152 : 1536) * kMebi;
  // Buffers of 10 MiB for a channel and peer; with more peers there are fewer channels for each. A second communicator,
  // whose gathers are between windows, has none.
  const uint64_t channels = world > 1 ? std::min<uint64_t>(1024, 256 + 96 * uint64_t(world)) * kMebi : 0;
  return libraries + channels;
}

/// What comes after the arena although libraries were loaded before it: CUDA graphs, and code that is loaded with the
/// first call of a product's size.
inline constexpr uint64_t kLateDeviceBytes = uint64_t(256) << 20;

} // namespace ztc
