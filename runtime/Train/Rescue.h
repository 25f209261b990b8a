// A trained model whose place takes it not: the disk is full when the run ends.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include <functional>
#include <string>
#include <vector>

namespace ztc {

struct RescueOptions {
  /// Folders in which a new one may be made, in the order in which they are tried; rank 0's count.
  std::vector<std::string> places = {};
  std::string name = {}; ///< of the new folder; a number follows where there is one already
  /// All ranks: the place that the model was meant for, once more. Tried again while the run waits.
  std::function<Status()> tryAgain = {};
  /// All ranks: writes into a folder that is not there yet.
  std::function<Status(const std::string &folder)> write = {};
  std::function<void(const std::string &)> note = {};
  bool mayWait = true; ///< false: each place is tried once
  double waitSeconds = 10;
};

/// All ranks call it together. Tries the places; where none takes the model, waits until one does, or until a signal
/// asks for a stop. Returns the new folder, or nothing where the place that it was meant for has taken it after all.
StatusOr<std::string> rescue(ControlChannel &control, const RescueOptions &options);

} // namespace ztc
