// Not yet.
#include "runtime/Device/host/HostStep.h"

namespace ztc {

PreparedStep prepareHostGroupedGemm(const HostPrepare &) {
  return invalidArgument("grouped gemm on a host");
}

} // namespace ztc
