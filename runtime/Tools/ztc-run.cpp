// ztc-run: trains a plan. Reads the environment, once, and turns a Status into an exit status.
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Tools/CommandLine.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

using namespace ztc;

namespace {

// Exit status.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kStopped = 3; ///< by a signal, resumable

int report(const Status &status, int exitStatus) {
  std::fflush(stdout);
  fmt::print(stderr, "ztc-run: error: {}\n", status.message());
  return exitStatus;
}

/// What a launcher around this process says, in the order in which they are believed.
LaunchEnvironment readLaunchEnvironment() {
  for (const char *name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char *text = std::getenv(name);
    uint64_t size = 0;
    if (text && std::from_chars(text, text + std::strlen(text), size).ec == std::errc() && size > 0)
      return {.worldSize = size, .source = name};
  }
  return {};
}

StatusOr<std::unique_ptr<Device>> makeDevice(const RunOptions &options) {
  HostDeviceOptions host;
  host.threads = uint32_t(options.threads.value_or(availableCores()));
  if (const char *library = std::getenv("ZTC_LIBDNNL"))
    host.oneDnnLibrary = library;
  return createHostDevice(std::move(host));
}

int run(const RunOptions &options) {
  if (Status status = checkDevices(options, readLaunchEnvironment()); !status.isOk())
    return report(status, kFailed);
  auto loaded = readPlanFile(options.plan);
  if (!loaded.isOk())
    return report(loaded.status(), kFailed);
  if (Status status = checkOptionsAgainstPlan(options, loaded->plan); !status.isOk())
    return report(status, kUsage);
  auto device = makeDevice(options);
  if (!device.isOk())
    return report(device.status(), kFailed);
  if (options.trains() && options.device.empty() && !options.ranks)
    fmt::print("no GPU in this build: one CPU rank\n");
  auto control = createSingleChannel();
  auto end = runPlan(options, std::move(*loaded), std::move(*device),
                     {.out = stdout, .live = isatty(STDOUT_FILENO) == 1}, {.control = *control});
  if (!end.isOk())
    return report(end.status(), kFailed);
  return *end == RunEnd::Stopped ? kStopped : kDone;
}

} // namespace

int main(int argc, char **argv) {
  auto parsed = parseCommandLine(argc, argv);
  if (!parsed.isOk())
    return report(parsed.status(), kUsage);
  if (auto *text = std::get_if<CommandLineText>(&*parsed)) {
    fmt::print("{}", text->text);
    return kDone;
  }
  installStopSignals();
  return run(std::get<RunOptions>(*parsed));
}
