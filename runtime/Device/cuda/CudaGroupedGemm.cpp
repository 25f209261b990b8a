// Not yet.
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

PreparedStep prepareCudaGroupedGemm(const CudaPrepare &) {
  return invalidArgument("grouped gemm on a GPU");
}

} // namespace ztc
