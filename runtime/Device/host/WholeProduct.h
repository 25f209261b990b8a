// A product in one thread, by any plan that packs op(B) block after block and multiplies it by rows of op(A).
#pragma once
#include "runtime/Core/Sizes.h"
#include "runtime/Device/host/MatmulProblem.h"
#include <cstddef>
#include <cstdint>

namespace ztc {

/// Bytes that a whole product wants as scratch: those of a packed block, then those of a thread. Any alignment of 64
/// does.
template <class Plan> uint64_t wholeScratchBytes(const Plan &plan) {
  return roundUp(plan.packedBytes(), 64) + plan.scratchBytes();
}

/// Where a thread's scratch begins in that of a whole product.
template <class Plan> std::byte *scratchAfterBlock(const Plan &plan, void *scratch) {
  return static_cast<std::byte *>(scratch) + roundUp(plan.packedBytes(), 64);
}

/// All blocks, with all rows.
template <class Plan, class Element>
void multiplyBlocks(const Plan &plan, const Element *a, const Element *b, ProductResult c, void *scratch) {
  for (size_t index = 0; index < plan.blocks(); ++index) {
    const auto block = plan.block(index);
    const uint64_t panels = plan.panels(block);
    plan.pack(block, b, 0, panels, scratch);
    plan.multiply(block, a, scratch, c, {0, plan.problem().m}, {0, panels}, scratchAfterBlock(plan, scratch));
  }
}

} // namespace ztc
