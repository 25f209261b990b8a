// How fast page-locked memory gets to a GPU and back.
#pragma once
#include "runtime/Device/cuda/CudaLibraries.h"
#include <string>

namespace ztc {

/// Of one GPU, one way at a time.
struct CudaLinkRates {
  std::string gpu; ///< its name
  double inBytesPerSecond = 0, outBytesPerSecond = 0;
};

/// The first GPU of this host, by copies of 64 MiB. FailedPrecondition where there is none.
StatusOr<CudaLinkRates> measureCudaLink(const CudaLibraryPaths &libraries);

} // namespace ztc
