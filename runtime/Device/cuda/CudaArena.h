// The one allocation on a GPU.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <functional>

namespace ztc {

/// Virtual memory where the driver has it: NCCL registers no other (src/transport/p2p.cc refuses legacy memory, and
/// copies), else cuMemAlloc's. `drain` returns when nothing uses the memory any more. The memory is not zero yet. Fails
/// (ResourceExhausted) where there is too little.
StatusOr<std::unique_ptr<Arena>> allocateCudaArena(const CudaDriver &driver, const Gpu &gpu, uint64_t bytes,
                                                   std::function<void()> drain);

/// What such an arena takes of the GPU's memory: whole pages.
uint64_t cudaArenaBytes(const CudaDriver &driver, const Gpu &gpu, uint64_t bytes);

} // namespace ztc
