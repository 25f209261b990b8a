// What cuDNN's attention takes: known without the library, asked by the compiler, which plans its workspace, and by the
// device, which calls it.
#pragma once
#include "runtime/Format/ScratchSizes.h"
#include <vector>

namespace ztc {

/// What ztc's own kernels do beyond cuDNN's attention as it is called here.
struct AttentionExtras {
  bool packed = false;     ///< rows hold several documents
  bool softcapped = false; ///< scores are bent by a tanh before the softmax
};

/// Why ztc calls no attention of cuDNN for this head length and type (narrow: bf16 or f16), on any GPU; null where it
/// does.
constexpr const char *cudnnAttentionObstacle(bool narrow, uint64_t headDim, AttentionExtras extras = {}) {
  if (extras.softcapped)
    return "cuDNN is called for scores without a softcap";
  if (!narrow)
    return "cuDNN has no attention in f32";
  if (headDim % 8 != 0)
    return "cuDNN wants heads whose length is a multiple of 8";
  if (headDim > 256)
    return "cuDNN wants heads of at most 256 elements";
  // Else the frontend reserves for every document what the whole row takes.
  if (extras.packed && headDim % 16 != 0)
    return "cuDNN wants heads whose length is a multiple of 16 where rows are packed";
  return nullptr;
}

/// Whether a plan has gpu_document_table: rows are packed, and cuDNN may be told where their documents lie.
constexpr bool hasDocumentTable(bool narrow, uint64_t headDim, AttentionExtras extras) {
  return extras.packed && !cudnnAttentionObstacle(narrow, headDim, extras);
}

/// So many documents of a packed row a plan reserves workspace for: 64 tokens each on average.
constexpr uint64_t cudnnMostDocuments(uint64_t seq) {
  return std::max<uint64_t>(16, seq / 64);
}

/// What tells cuDNN where the documents of a packed row lie, as gpu_document_table (ServiceKernels.md) writes it.
/// cuDNN's graph is made for a number of sequences: those that are not there are empty.
struct DocumentTable {
  uint64_t documents = 0; ///< at most so many in a row

  /// i32 numbers of a row: lengths, and, with one more at the end, where documents begin in elements of queries, of
  /// keys and of a head's lse.
  constexpr uint64_t lengths() const { return 0; }
  constexpr uint64_t queryOffsets() const { return stride(); }
  constexpr uint64_t keyOffsets() const { return 2 * stride(); }
  constexpr uint64_t lseOffsets() const { return 3 * stride(); }
  constexpr uint64_t numbersOfRow() const { return 4 * stride(); }
  constexpr uint64_t bytes(uint64_t rows) const { return scratchBytes(rows * numbersOfRow()); }

private:
  /// Each of the four begins at a multiple of 16 bytes.
  constexpr uint64_t stride() const { return documents / 4 * 4 + 4; }
};

/// Workspace reserved for cuDNN. The forward form takes 256 bytes. What the deterministic gradient takes on GPUs of
/// compute capability 9 and 10 is linear in the sequence (asked of cuDNN 9.26, tests/e2e/cudnn-graphs.py): dq in f32;
/// of grouped heads dk and dv of each query head before they are added up; delta; 8 bytes per 64 rows of a head. A page
/// is granted beyond that.
constexpr uint64_t cudnnAttentionWorkspaceBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                                uint64_t headDim, bool grad) {
  constexpr uint64_t kSpare = 4096;
  const uint64_t rows = batch * heads * seq;
  if (!grad)
    return kSpare;
  const uint64_t ofHeads = kvHeads < heads ? 2 : 1;
  return scratchBytes(rows * headDim * ofHeads) + scratchBytes(rows) + 8 * batch * heads * ((seq + 63) / 64) + kSpare;
}

/// Workspace reserved for cuDNN where rows are packed, which computes one row at a time: what tells where its documents
/// lie and, besides (asked of cuDNN 9.28, tests/e2e/cudnn-graphs.py), descriptors of memory for each document; of the
/// gradient dq, and of grouped heads dk and dv of each query head, in f32, delta, and 8 bytes per 64 rows of a
/// document's head, each document taken to be as long as the row.
constexpr uint64_t cudnnPackedWorkspaceBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                             uint64_t headDim, bool grad) {
  constexpr uint64_t kSpare = 4096, kDescriptors = 512;
  const uint64_t documents = cudnnMostDocuments(seq), rows = heads * seq;
  const uint64_t ofDocuments = DocumentTable{documents}.bytes(batch) + kDescriptors * (documents + 64) + kSpare;
  if (!grad)
    return ofDocuments;
  const uint64_t ofHeads = kvHeads < heads ? 3 : 1;
  return ofDocuments + scratchBytes(rows * headDim * ofHeads) + scratchBytes(rows) +
         8 * documents * heads * ((seq + 63) / 64);
}

/// Workspace of the gradient of `batch` sequences in `heads` query heads where cuDNN keeps the cotangents of all scores
/// (asked of cuDNN 9.28, tests/e2e/cudnn-graphs.py; cudnn-frontend 1.32, scaled_dot_product_flash_attention.h:
/// required_dp_workspace_bytes); besides, of grouped heads dk and dv of each query head, and delta. Every version
/// before 9.25 does so, and on compute capability 9 all do where they are let: it is faster than adding up dq in order.
constexpr uint64_t cudnnScoresWorkspaceBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                             uint64_t headDim) {
  constexpr uint64_t kSpare = 4096;
  const uint64_t rows = batch * heads * seq;
  const uint64_t scores = 2 * batch * heads * ((seq + 63) / 64 * 64) * ((seq + 127) / 128 * 128);
  return scores + (kvHeads < heads ? 4 * rows * headDim : 0) + scratchBytes(rows) + kSpare;
}

/// What cuDNN computes at a time of a gradient whose workspace is too large as a whole: whole sequences, or of one
/// sequence key/value heads with their query heads.
struct AttentionPart {
  uint64_t sequences, kvHeads;
};

/// The whole call and its parts that divide it, the largest first.
inline std::vector<AttentionPart> attentionParts(uint64_t batch, uint64_t kvHeads) {
  std::vector<AttentionPart> parts;
  for (uint64_t sequences = batch; sequences > 0; --sequences)
    if (batch % sequences == 0)
      parts.push_back({sequences, kvHeads});
  for (uint64_t heads = kvHeads - 1; heads > 0; --heads)
    if (kvHeads % heads == 0)
      parts.push_back({1, heads});
  return parts;
}

/// Scratch of attention on a GPU, whichever way it takes: its own kernels' gradient needs one float (delta) per row and
/// head, the forward form none.
constexpr uint64_t gpuAttentionScratchBytes(uint64_t batch, uint64_t seq, uint64_t heads, uint64_t kvHeads,
                                            uint64_t headDim, bool narrow, bool grad, AttentionExtras extras = {}) {
  const uint64_t own = grad ? gpuAttentionGradScratchBytes(batch, seq, heads) : 0;
  if (cudnnAttentionObstacle(narrow, headDim, extras))
    return own;
  return std::max(own, extras.packed ? cudnnPackedWorkspaceBytes(batch, seq, heads, kvHeads, headDim, grad)
                                     : cudnnAttentionWorkspaceBytes(batch, seq, heads, kvHeads, headDim, grad));
}

} // namespace ztc
