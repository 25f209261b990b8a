// A plan's attention as cuDNN's module takes it.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Device/cuda/cudnn/CudnnModule.h"
#include "runtime/Format/plan.pb.h"
#include <vector>

namespace ztc {

/// Tensors are whole, (batch, seq, heads, head_dim) in this order. The type is bf16 or f16. `deterministic`: of the
/// gradient.
ZtcCudnnAttention cudnnShape(const plan::Attention &attention, bool deterministic = true);

/// The same of one packed row, whose documents stay within `bounds`.
ZtcCudnnAttention cudnnPackedShape(const plan::Attention &attention, DocumentBounds bounds, bool deterministic = true);

/// Parts of a call that together are the whole: as many sequences, or of one sequence as many key/value heads with
/// their query heads, as divide it; the largest first.
std::vector<ZtcCudnnAttention> cudnnParts(const ZtcCudnnAttention &whole);

} // namespace ztc
