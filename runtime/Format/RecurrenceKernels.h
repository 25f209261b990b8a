// What kernels of linear attention's chunks take at once: one set of numbers for the compiler, the validator and the
// devices. See ServiceKernels.md.
#pragma once
#include <cstdint>

namespace ztc {

/// Rows of the widest matrices that unit_lower_inverse takes: a GPU's block has a thread for each column.
inline constexpr uint64_t kMaxUnitLowerRows = 64;

/// Columns of a state that a block of gpu_state_passing_products takes through all chunks.
inline constexpr uint64_t kStateColumns = 64;

} // namespace ztc
