// What compiler and device agree on for selective scans.
#pragma once
#include "runtime/Format/ScratchSizes.h"

namespace ztc {

/// Channels whose sums a gradient gives together: a result of it has a part for each.
inline constexpr uint64_t kScanGroup = 64;
/// Channels are multiples of it: those of a vector of the host, of a few warps of a GPU.
inline constexpr uint64_t kScanLanes = 16;
/// Threads of a GPU for one channel.
inline constexpr uint64_t kGpuScanTeam = 4;
/// The most numbers of a channel's state.
inline constexpr uint64_t kMaxScanStates = 64;
/// Positions whose sums over channels a GPU adds up at a time: those between two states that are kept are a multiple.
inline constexpr uint64_t kScanTurn = 8;
/// Positions between two states that are kept. A state takes as much as so many of its channel's numbers as it has
/// elements: of 16, half of one tensor of activations.
inline constexpr uint64_t kScanChunk = 32;

constexpr uint64_t scanGroups(uint64_t channels) {
  return (channels + kScanGroup - 1) / kScanGroup;
}
constexpr uint64_t scanChunks(uint64_t positions, uint64_t chunk) {
  return (positions + chunk - 1) / chunk;
}

/// Bytes that one worker thread needs for the gradient: of the positions of a chunk the states before and after them,
/// the decays, and the sums of two products, for a vector of channels; of a group's channels the state's cotangent. A
/// PER_THREAD slot of this size.
constexpr uint64_t scanScratchBytes(uint64_t chunk, uint64_t states) {
  return scratchBytes(((4 * chunk + 1) * kScanLanes + kScanGroup) * states);
}
/// Bytes that a GPU needs for the gradient: the states before the positions of a chunk, of all channels in whole groups
/// and as many numbers of each as its threads have.
constexpr uint64_t gpuScanScratchBytes(uint64_t batch, uint64_t channels, uint64_t chunk, uint64_t states) {
  const uint64_t own = (states + kGpuScanTeam - 1) / kGpuScanTeam;
  return scratchBytes(batch * scanGroups(channels) * kScanGroup * kGpuScanTeam * own * chunk);
}

} // namespace ztc
