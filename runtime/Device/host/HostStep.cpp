#include "runtime/Device/host/HostStep.h"

namespace ztc {

StatusOr<MatmulCache *> HostResources::matmulCache() {
  if (!matmuls) {
    ZTC_ASSIGN_OR_RETURN(const OneDnn *library, OneDnn::load(oneDnnLibrary));
    matmuls = std::make_unique<MatmulCache>(*library, pool.threads());
  }
  return matmuls.get();
}

} // namespace ztc
