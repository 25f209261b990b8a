// How fast this machine moves what a plan keeps outside the device.
#pragma once
#include "runtime/Core/Status.h"
#include <string>

namespace ztc {

/// For --measure-links: memory to memory as a move copies, and reads and writes in `folder` (empty: none), where it
/// takes 256 MiB for some seconds. `engine` as in DiskSpaceOptions.
StatusOr<std::string> linkReport(const std::string &folder, const std::string &engine);

} // namespace ztc
