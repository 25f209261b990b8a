// Not yet.
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

PreparedStep prepareCudaRoute(const CudaPrepare &) {
  return invalidArgument("route on a GPU");
}

} // namespace ztc
