// How fast this machine moves what a plan keeps outside the device.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <string>

namespace ztc {

/// What --measure-links measures, and where it is kept.
struct LinkOptions {
  std::string folder;         ///< of a disk; empty: none
  std::string engine;         ///< as in DiskSpaceOptions
  CudaLibraryPaths libraries; ///< of the first GPU, where there is one
  std::string file;           ///< keeps the rates, for the compiler; empty: nothing is kept
};

/// A line for each: memory to memory as a move copies; what all cores read and write as an update does; page-locked
/// memory to and from a GPU; reads and writes in `folder`, where it takes 256 MiB for some seconds.
StatusOr<std::string> linkReport(const LinkOptions &options);

} // namespace ztc
