// What cuDNN's attention takes: known without the library, asked by the compiler, which plans its workspace, and by the
// device, which calls it.
#pragma once
#include "runtime/Format/ScratchSizes.h"

namespace ztc {

/// Why cuDNN has no attention of this head length and type (narrow: bf16 or f16), on any GPU; null where it has.
constexpr const char *cudnnAttentionObstacle(bool narrow, uint64_t headDim) {
  if (!narrow)
    return "cuDNN has no attention in f32";
  if (headDim % 8 != 0)
    return "cuDNN wants heads whose length is a multiple of 8";
  if (headDim > 256)
    return "cuDNN wants heads of at most 256 elements";
  return nullptr;
}

/// Workspace reserved for cuDNN. The forward form takes 256 bytes. What the deterministic gradient takes on GPUs of
/// compute capability 9 and 10 is linear in the sequence (asked of cuDNN 9.26, tests/cudnn): dq in f32; of grouped
/// heads dk and dv of each query head before they are added up; delta; 8 bytes per 64 rows of a head. A page is
/// granted beyond that.
constexpr uint64_t cudnnAttentionWorkspaceBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                                uint64_t headDim, bool grad) {
  constexpr uint64_t kSpare = 4096;
  const uint64_t rows = batch * heads * seq;
  if (!grad)
    return kSpare;
  const uint64_t ofHeads = kvHeads < heads ? 2 : 1;
  return scratchBytes(rows * headDim * ofHeads) + scratchBytes(rows) + 8 * batch * heads * ((seq + 63) / 64) + kSpare;
}

/// Scratch of attention on a GPU, whichever way it takes: its own kernels' gradient needs one float (delta) per row and
/// head, the forward form none.
constexpr uint64_t gpuAttentionScratchBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                            uint64_t headDim, bool narrow, bool grad) {
  const uint64_t own = grad ? gpuAttentionGradScratchBytes(batch, seq, heads) : 0;
  if (cudnnAttentionObstacle(narrow, headDim))
    return own;
  return std::max(own, cudnnAttentionWorkspaceBytes(batch, seq, heads, kvHeads, headDim, grad));
}

} // namespace ztc
