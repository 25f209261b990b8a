// What cuDNN's attention takes: known without the library, asked by the compiler, which plans its workspace, and by the
// device, which calls it.
#pragma once
#include "runtime/Format/ScratchSizes.h"

namespace ztc {

/// What ztc's own kernels do beyond cuDNN's attention as it is called here.
struct AttentionExtras {
  bool packed = false;     ///< rows hold several documents
  bool softcapped = false; ///< scores are bent by a tanh before the softmax
};

/// Why ztc calls no attention of cuDNN for this head length and type (narrow: bf16 or f16), on any GPU; null where it
/// does. Of packed rows: how many documents a row has changes from step to step, and with it what cuDNN's form for
/// several sequences in a row (ragged offsets: so many sequences) is made for.
constexpr const char *cudnnAttentionObstacle(bool narrow, uint64_t headDim, AttentionExtras extras = {}) {
  if (extras.packed)
    return "cuDNN wants the number of documents in a row beforehand";
  if (extras.softcapped)
    return "cuDNN is called for scores without a softcap";
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

/// Workspace of the gradient of `batch` sequences in `heads` query heads where cuDNN keeps the cotangents of all
/// scores: every version before 9.25 does. In parts, a sequence or a key/value head with its query heads at a time, it
/// is that of a part (cudnn-frontend 1.32, scaled_dot_product_flash_attention.h: required_dp_workspace_bytes).
constexpr uint64_t cudnnScoresWorkspaceBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                             uint64_t headDim) {
  constexpr uint64_t kSpare = 4096;
  const uint64_t scores = 2 * batch * heads * ((seq + 63) / 64 * 64) * ((seq + 127) / 128 * 128);
  return scores + (kvHeads < heads ? 4 * batch * heads * seq * headDim : 0) + kSpare;
}

/// The gradient's workspace in a step whose logits take `logitsBytes`: enough for one part of the way above where that
/// is about as much as the logits, which are not there at the same time.
constexpr uint64_t cudnnGradientWorkspaceBytes(uint64_t seq, uint64_t heads, uint64_t kvHeads, uint64_t headDim,
                                               uint64_t logitsBytes) {
  const uint64_t part = cudnnScoresWorkspaceBytes(1, seq, heads / kvHeads, 1, headDim);
  return part <= logitsBytes + logitsBytes / 16 ? part : 0;
}

/// Scratch of attention on a GPU, whichever way it takes: its own kernels' gradient needs one float (delta) per row and
/// head, the forward form none.
constexpr uint64_t gpuAttentionScratchBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                            uint64_t headDim, bool narrow, bool grad, AttentionExtras extras = {}) {
  const uint64_t own = grad ? gpuAttentionGradScratchBytes(batch, seq, heads) : 0;
  if (cudnnAttentionObstacle(narrow, headDim, extras))
    return own;
  return std::max(own, cudnnAttentionWorkspaceBytes(batch, seq, heads, kvHeads, headDim, grad));
}

} // namespace ztc
