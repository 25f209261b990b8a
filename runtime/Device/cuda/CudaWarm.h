// What libraries take of a GPU beside the arena, taken before it.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// One small call of everything that the prepared steps and `communicator` (may be null) use, and waits for it.
Status warmCudaLibraries(CudaResources &resources, Communicator *communicator);

} // namespace ztc
