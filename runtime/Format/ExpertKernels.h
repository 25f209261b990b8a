// What kernels for GPUs of rows that go to groups take at once: one set of numbers for the compiler, which makes them,
// and the device, which launches them. See ServiceKernels.md.
#pragma once
#include <cstdint>

namespace ztc {

/// Choices that a block of gpu_route_count and gpu_route_places counts, and the most experts that it has counters for.
/// No fewer choices than twice the experts: the counts of all blocks fit where the order will be.
inline constexpr uint64_t kGpuRouteChoices = 4096, kMaxGpuExperts = 1024;

/// Rows and columns of what a block of gpu_grouped_gemm computes.
constexpr uint64_t groupedTile(bool isNarrow) {
  return isNarrow ? 128 : 64;
}

/// Blocks of gpu_grouped_gemm: as many as tiles could be needed, whatever the groups' rows are; those that are not
/// leave at once. Of `outer` it is every tile of every group's matrix.
constexpr uint64_t groupedBlocks(bool isOuter, uint64_t rows, uint64_t n, uint64_t k, uint64_t groups, uint64_t tile) {
  const uint64_t columns = (n + tile - 1) / tile;
  return columns * (isOuter ? groups * ((k + tile - 1) / tile) : (rows + tile - 1) / tile + groups);
}

/// Tiles of rows whose columns follow each other in the grid before the next ones': blocks that run together share a
/// group's matrix.
inline constexpr uint64_t kGroupedPanel = 8;

/// The tile that a block of gpu_grouped_gemm takes, of those of all groups one after the other, and of columns. There
/// may be no such tile. Not of `outer`.
struct GroupedPlace {
  uint64_t tile = 0, column = 0;
};
constexpr GroupedPlace groupedPlace(uint64_t block, uint64_t rows, uint64_t n, uint64_t groups, uint64_t side) {
  const uint64_t most = (rows + side - 1) / side + groups, columns = (n + side - 1) / side;
  const uint64_t first = block / (columns * kGroupedPanel) * kGroupedPanel, within = block % (columns * kGroupedPanel);
  const uint64_t height = most - first < kGroupedPanel ? most - first : kGroupedPanel;
  return {first + within % height, within / height};
}

} // namespace ztc
