// A plan's attention as cuDNN's module takes it.
#pragma once
#include "runtime/Device/cuda/cudnn/CudnnModule.h"
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// Tensors are whole, (batch, seq, heads, head_dim) in this order. The type is bf16 or f16.
ZtcCudnnAttention cudnnShape(const plan::Attention &attention);

} // namespace ztc
