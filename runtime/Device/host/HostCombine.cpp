// Not yet.
#include "runtime/Device/host/HostStep.h"

namespace ztc {

PreparedStep prepareHostCombine(const HostPrepare &) {
  return invalidArgument("combine on a host");
}

} // namespace ztc
