// A plan's attention as cuDNN's module takes it.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Device/cuda/cudnn/CudnnModule.h"
#include "runtime/Format/plan.pb.h"
#include <vector>

namespace ztc {

/// Tensors are whole, (batch, seq, heads, head_dim) in this order. The type is bf16 or f16. `deterministic`: of the
/// gradient, whose workspace is linear in the sequence where cuDNN has that way.
ZtcCudnnAttention cudnnShape(const plan::Attention &attention, bool deterministic = true);

/// The same of one packed row, whose documents stay within `bounds`.
ZtcCudnnAttention cudnnPackedShape(const plan::Attention &attention, DocumentBounds bounds, bool deterministic = true);

/// The call and its parts, as attentionParts() has them.
std::vector<ZtcCudnnAttention> cudnnParts(const ZtcCudnnAttention &whole);

} // namespace ztc
