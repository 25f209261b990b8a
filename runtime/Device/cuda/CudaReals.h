// Device memory full of ordinary numbers: what a product of them costs, in power too, is what one of real values costs.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// Fills memory with words whose halves are between 2^-15 and 2 in either sign as bf16 and as f16, so that the whole is
/// as f32 too, and waits for that. Zeros would do instead where only the address counts: they multiply some 13 %
/// faster.
Status fillWithReals(const CudaDriver &driver, cuda::Stream stream, cuda::Address memory, uint64_t bytes);

} // namespace ztc
