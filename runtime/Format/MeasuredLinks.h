// What `ztc-run --measure-links` has found on this machine, kept for the compiler's cost model.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <vector>

namespace ztc {

/// One link, measured once.
struct MeasuredLink {
  std::string kind;                                   ///< "memory", "cores" (of a rank), "gpu" or "disk"
  std::string name;                                   ///< of the device; of a disk the folder
  std::string date;                                   ///< of the measurement, as 2026-11-24
  double inBytesPerSecond = 0, outBytesPerSecond = 0; ///< towards the device, and away from it
  /// Of moving there and back, one after the other: 2 / (1/in + 1/out).
  double bothBytesPerSecond() const;
};

/// The links of a file, the latest of each kind last. None where there is no such file; DataLoss where it holds
/// something else.
StatusOr<std::vector<MeasuredLink>> readMeasuredLinks(const std::string &path);
/// Adds `measured` to those of the file, in place of what had their kind and name; what the file held otherwise, where
/// it cannot be read as links, is replaced.
Status keepMeasuredLinks(const std::string &path, const std::vector<MeasuredLink> &measured);

} // namespace ztc
