// Which algorithms of the device's libraries a run takes: the checkpoint's, the cache's, or the fastest that are
// measured now; the same on all ranks.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Format/AlgorithmChoices.h"
#include "runtime/Ranks/ControlChannel.h"
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ztc {

/// Where choices may come from. Matters on rank 0.
struct AlgorithmPolicy {
  const AlgorithmChoices *resumed = nullptr; ///< of the checkpoint that the run goes on from: they come first
  std::string cacheFolder = {};              ///< of this user; empty: no cache
  double seconds = 0;                        ///< that measuring may take, nearly; 0: nothing is measured
  std::function<void(size_t done, size_t all)> progress = {}; ///< while it measures; may be empty
};

/// What came of it. Only rank 0 knows more than `choices`.
struct ChosenAlgorithms {
  AlgorithmChoices choices; ///< of every call; for checkpoints. Empty key: there was nothing to choose
  size_t resumed = 0, cached = 0, measured = 0;
  size_t unmeasured = 0;                                                      ///< for which the time did not suffice
  double seconds = 0;                                                         ///< that it took
  std::map<std::string, std::map<std::string, double>> attentionSeconds = {}; ///< as TunedAlgorithms has them
  std::string differs = {};       ///< why bits may differ from the run that goes on, in words; empty: they do not
  std::vector<std::string> notes; ///< lines for a person: a cache that is ignored, a rank that has another library

  /// "43 matrix products: 12 of the checkpoint, 31 measured in 2.1 s".
  std::string text() const;
};

/// All ranks: rank 0 chooses, the others take what it chose. Before the arena holds anything. What it measures goes
/// into the cache; one that cannot be read or written costs a note, not the run.
StatusOr<ChosenAlgorithms> chooseAlgorithms(Device &device, const Arena &arena, ControlChannel &control,
                                            const AlgorithmPolicy &policy);

/// The cache's file for a library and device.
std::string algorithmCacheFile(const std::string &folder, const std::string &key);

} // namespace ztc
