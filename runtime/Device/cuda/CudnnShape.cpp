#include "runtime/Device/cuda/CudnnShape.h"
#include "runtime/Format/CudnnAttention.h"
#include <algorithm>

namespace ztc {

ZtcCudnnAttention cudnnShape(const plan::Attention &attention, bool deterministic) {
  ZtcCudnnAttention shape{};
  shape.type = attention.type() == plan::BF16 ? ZTC_CUDNN_BF16 : ZTC_CUDNN_F16;
  shape.grad = attention.grad();
  shape.causal = attention.causal();
  shape.deterministic = shape.linearWorkspace = attention.grad() && deterministic;
  shape.window = attention.causal() ? int64_t(attention.window()) : 0;
  shape.batch = int64_t(attention.batch());
  shape.seq = int64_t(attention.seq());
  shape.heads = int64_t(attention.heads());
  shape.kvHeads = int64_t(attention.kv_heads());
  shape.headDim = int64_t(attention.head_dim());
  shape.scale = float(attention.scale());
  const auto whole = [&](int64_t heads) {
    return ZtcCudnnStrides{shape.seq * heads * shape.headDim, heads * shape.headDim, shape.headDim};
  };
  for (int tensor : {ZTC_CUDNN_Q, ZTC_CUDNN_OUT, ZTC_CUDNN_DOUT, ZTC_CUDNN_DQ})
    shape.strides[tensor] = whole(shape.heads);
  for (int tensor : {ZTC_CUDNN_K, ZTC_CUDNN_V, ZTC_CUDNN_DK, ZTC_CUDNN_DV})
    shape.strides[tensor] = whole(shape.kvHeads);
  return shape;
}

ZtcCudnnAttention cudnnPackedShape(const plan::Attention &attention, DocumentBounds bounds, bool deterministic) {
  // A graph for a few lengths does for all: blocks of cuDNN take 128 rows or fewer.
  constexpr int64_t kRows = 128;
  ZtcCudnnAttention shape = cudnnShape(attention, deterministic);
  shape.batch = 1;
  shape.documents = int64_t(bounds.most);
  shape.longest = std::min(shape.seq, (int64_t(bounds.longest) + kRows - 1) / kRows * kRows);
  return shape;
}

std::vector<ZtcCudnnAttention> cudnnParts(const ZtcCudnnAttention &whole) {
  std::vector<ZtcCudnnAttention> parts;
  for (const AttentionPart &one : attentionParts(uint64_t(whole.batch), uint64_t(whole.kvHeads))) {
    ZtcCudnnAttention part = whole; // strides are those of the whole tensors
    part.batch = int64_t(one.sequences);
    part.kvHeads = int64_t(one.kvHeads);
    part.heads = whole.heads / whole.kvHeads * part.kvHeads;
    parts.push_back(part);
  }
  return parts;
}

} // namespace ztc
