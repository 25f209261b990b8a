// The libraries that this process's environment names, for programs of the tests.
#pragma once
#include "runtime/Device/cuda/LibraryFolders.h"
#include <cstdlib>
#include <string>

namespace ztc {

inline CudaLibraryPaths cudaLibraryPathsOfProcess() {
  return cudaLibraryPaths([](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  });
}

} // namespace ztc
