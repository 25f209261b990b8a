#include "runtime/Train/Rescue.h"
#include "runtime/Core/File.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/Signals.h"
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace ztc {

namespace {

/// A name in `place` that nothing has yet.
std::string newFolder(const std::string &place, const std::string &name) {
  std::string folder = place + "/" + name;
  for (int number = 2; pathExists(folder); ++number)
    folder = fmt::format("{}/{}-{}", place, name, number);
  return folder;
}

/// Tries each place once; the last failure where none takes it.
StatusOr<std::string> tryPlaces(ControlChannel &control, const RescueOptions &options) {
  // The other ranks may have other places, and other folders in them.
  ZTC_ASSIGN_OR_RETURN(const std::string count,
                       fromFirstRank(&control, "places", std::to_string(options.places.size())));
  Status last = unavailable("there is no other place");
  for (size_t i = 0; i < std::stoul(count); ++i) {
    const std::string mine = i < options.places.size() ? newFolder(options.places[i], options.name) : std::string();
    ZTC_ASSIGN_OR_RETURN(const std::string folder, fromFirstRank(&control, "place", mine));
    last = options.write(folder);
    if (last.isOk())
      return folder;
    ZTC_RETURN_IF_ERROR(control.status()); // a rank is lost: there is nobody to try with
  }
  return last;
}

/// Whether all ranks go on waiting: rank 0 has heard no signal for so long.
StatusOr<bool> waitTogether(ControlChannel &control, double seconds) {
  const double end = steadySeconds() + seconds;
  while (steadySeconds() < end && !stopSignal()) {
    control.progress().addWork(); // this is not a hang
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ZTC_ASSIGN_OR_RETURN(const std::string decision,
                       fromFirstRank(&control, "waiting", std::string(stopSignal() ? "stop" : "wait")));
  return decision == "wait";
}

} // namespace

StatusOr<std::string> rescue(ControlChannel &control, const RescueOptions &options) {
  auto found = tryPlaces(control, options);
  bool isSaid = false;
  while (!found.isOk() && options.mayWait && control.status().isOk()) {
    if (!isSaid)
      options.note(fmt::format("warning: nor does {} take it ({}): the run waits and tries again every {:g} s; make "
                               "room in one of them, or stop it, which gives the model up",
                               fmt::join(options.places, " or "), found.status().message(), options.waitSeconds));
    isSaid = true;
    ZTC_ASSIGN_OR_RETURN(const bool goesOn, waitTogether(control, options.waitSeconds));
    if (options.tryAgain().isOk())
      return std::string();
    ZTC_RETURN_IF_ERROR(control.status());
    found = tryPlaces(control, options);
    if (!goesOn)
      break;
  }
  return found;
}

} // namespace ztc
