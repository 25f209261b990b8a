// Not yet.
#include "runtime/Device/host/HostStep.h"

namespace ztc {

PreparedStep prepareHostRoute(const HostPrepare &) {
  return invalidArgument("route on a host");
}

} // namespace ztc
