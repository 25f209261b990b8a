// Not yet.
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

PreparedStep prepareCudaCombine(const CudaPrepare &) {
  return invalidArgument("combine on a GPU");
}

} // namespace ztc
