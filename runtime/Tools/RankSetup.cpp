#include "runtime/Tools/RankSetup.h"
#include "runtime/Collective/Communicators.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Random.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Version.h"
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/LibraryFolders.h"
#include "runtime/Device/cuda/nccl/NcclCommunicator.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <sched.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace {

/// Which cores of which machine a rank may use.
struct CoreShare {
  uint64_t host = 0; ///< equal on ranks of one running system
  uint64_t mask = 0;
};

CoreShare coreShare() {
  CoreShare share;
  char boot[64] = "";
  if (std::FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) { // its size reads as 0
    boot[std::fread(boot, 1, sizeof boot - 1, file)] = 0;
    std::fclose(file);
  }
  share.host = boot[0] ? hashName(boot) : uint64_t(gethostid());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    share.mask = hashName({reinterpret_cast<const char *>(&set), sizeof set});
  return share;
}

std::string variable(const Environment &environment, const char *name) {
  auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

RendezvousStore storeOf(ControlChannel &control) {
  RendezvousStore store;
  store.set = [&control](const std::string &key, const std::string &value) {
    return control.set(key, std::as_bytes(std::span<const char>(value.data(), value.size())));
  };
  // No limit of its own: a rank that does not come is lost or hangs, and the channel says so.
  store.wait = [&control](const std::string &key, uint64_t) -> StatusOr<std::string> {
    ZTC_ASSIGN_OR_RETURN(Bytes value, control.get(key));
    return std::string(reinterpret_cast<const char *>(value.data()), value.size());
  };
  return store;
}

} // namespace

Environment readEnvironment() {
  Environment environment;
  for (char **entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    if (size_t equals = text.find('='); equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

CudaLibraryPaths cudaLibraries(const Environment &environment) {
  return cudaLibraryPaths([&](const char *name) { return variable(environment, name); });
}

StatusOr<std::variant<RankIdentity, LaunchOrder>> describeLaunch(const RunOptions &options,
                                                                 const Environment &environment) {
  LaunchRequest request;
  request.ranks = options.gpus ? options.gpus : options.ranks;
  request.nodes = options.nodes.value_or(1);
  request.nodeRank = options.nodeRank;
  request.rendezvous = options.rendezvous;
  return describeLaunch(request, environment, getppid());
}

RunOptions withDefaultDevice(RunOptions options, const Environment &environment) {
  if (options.gpus || options.ranks || !options.device.empty())
    return options;
  const StatusOr<std::vector<Gpu>> gpus = findGpus(cudaLibraries(environment));
  const auto launched = describeLaunch(options, environment);
  if (!gpus.isOk() || !launched.isOk()) // what is wrong with the latter is said elsewhere
    return options;
  const auto *identity = std::get_if<RankIdentity>(&*launched);
  if (identity && identity->world > 1)
    options.device = "cuda";
  else
    options.gpus = gpus->size();
  return options;
}

std::string userCacheFolder(const Environment &environment) {
  const std::string cache = variable(environment, "XDG_CACHE_HOME"), home = variable(environment, "HOME");
  if (cache.empty() && home.empty())
    return {};
  return (cache.empty() ? home + "/.cache" : cache) + "/ztc";
}

StatusOr<RunOptions> withEnvironment(RunOptions options, const Environment &environment) {
  if (const std::string text = variable(environment, "ZTC_CUDA_TUNE"); !text.empty()) {
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, options.tuneSeconds);
    if (error != std::errc() || stop != end || !(options.tuneSeconds >= 0))
      return invalidArgument(fmt::format("ZTC_CUDA_TUNE is '{}': it is the seconds that measuring algorithms of matrix "
                                         "products may take; 0: none is measured",
                                         text));
  }
  if (options.tuneSeconds > 0)
    options.cacheFolder = userCacheFolder(environment);
  options.diskEngine = variable(environment, "ZTC_DISK_ENGINE");
  if (!options.diskEngine.empty() && options.diskEngine != "io_uring" && options.diskEngine != "threads")
    return invalidArgument(fmt::format("ZTC_DISK_ENGINE is '{}': it is io_uring or threads", options.diskEngine));
  if (const std::string folder = variable(environment, "TMPDIR"); !folder.empty())
    options.temporaryFolder = folder;
  return options;
}

StatusOr<std::string> runSecret(const RunOptions &options, const Environment &environment,
                                const RankIdentity &identity) {
  if (identity.launcher != 0 && !identity.runId.empty())
    return identity.runId;
  ZTC_ASSIGN_OR_RETURN(const LoadedPlan loaded, readPlanFile(options.plan));
  Sha256 hash;
  for (const std::string &part : {identity.runId, loaded.sha256, variable(environment, "ZTC_RUN_SECRET")}) {
    hash.update(std::to_string(part.size()) + " ");
    hash.update(part);
  }
  return Sha256::hex(hash.finish());
}

JoinResult joinRanks(const RunOptions &options, const Environment &environment, const RankIdentity &identity) {
  if (identity.world == 1)
    return createSingleChannel();
  const auto secret = runSecret(options, environment, identity);
  if (!secret.isOk())
    return RunFailure{secret.status(), identity.rank, true, identity.rank};
  JoinOptions join;
  join.rank = identity.rank;
  join.world = identity.world;
  join.place = identity.rendezvous;
  join.listener = identity.listener;
  join.secret = *secret;
  join.version = ZTC_VERSION;
  join.timeoutSeconds = options.timeoutSeconds;
  join.notice = [](const std::string &line) { print(stderr, "{}\n", line); };
  join.cancelled = [] { return stopSignal() != 0; };
  return joinRun(std::move(join));
}

StatusOr<uint32_t> threadsOfRank(const RunOptions &options, ControlChannel &control) {
  CoreShare mine = coreShare();
  ZTC_ASSIGN_OR_RETURN(std::vector<CoreShare> all, allGatherValue(control, "cores", mine));
  auto sharers = std::count_if(all.begin(), all.end(), [&](const CoreShare &other) {
    return other.host == mine.host && other.mask == mine.mask;
  });
  uint32_t share = std::max(1u, availableCores() / uint32_t(std::max<long>(1, sharers)));
  return uint32_t(options.threads.value_or(share));
}

std::string libraryReport(const Environment &environment) {
  return describeCudaLibraries(cudaLibraries(environment));
}

Status checkDevices(const RunOptions &options, const Environment &environment) {
  if (!wantsGpus(options))
    return Status::ok();
  const char *option = options.gpus ? "--gpus" : "--device=cuda";
  const StatusOr<std::vector<Gpu>> gpus = findGpus(cudaLibraries(environment));
  if (!gpus.isOk())
    return failedPrecondition(fmt::format("{}: no GPU can be used: {} (--device=cpu trains on the processor)", option,
                                          gpus.status().message()));
  if (options.gpus.value_or(1) > gpus->size() && variable(environment, "ZTC_SHARE_GPUS") != "1")
    return failedPrecondition(
        fmt::format("{} {}: this host has {}: {}", option, *options.gpus, gpus->size(), gpus->front().name));
  return Status::ok();
}

std::string standInNotice(const RunOptions &options, const Environment &environment) {
  const std::string folder = variable(environment, "ZTC_STAND_INS");
  if (!wantsGpus(options) || folder.empty())
    return {};
  return fmt::format("STAND-INS FOR CUDA'S LIBRARIES, FROM {}: NO GPU IS USED, THIS IS A TEST", folder);
}

StatusOr<std::unique_ptr<Device>> createDevice(const RunOptions &options, const Environment &environment,
                                               const RankIdentity &identity, uint32_t threads) {
  if (wantsGpus(options))
    return createCudaDevice({.libraries = cudaLibraries(environment),
                             .localRank = identity.localRank,
                             .synchronous = variable(environment, "ZTC_CUDA_SYNC") == "1",
                             .graphs = variable(environment, "ZTC_CUDA_GRAPHS") != "0",
                             .timed = !options.profile.empty() || !options.trace.empty(),
                             .deterministic = options.deterministic,
                             .hostThreads = threads});
  if (!options.instructionSet.empty())
    if (const Status limited = limitHostTarget(options.instructionSet); !limited.isOk())
      return failedPrecondition(fmt::format("--instruction-set {}", limited.message()));
  HostDeviceOptions host;
  host.threads = threads;
  return createHostDevice(std::move(host));
}

/// NCCL's own words for two ranks on one GPU name neither. Returns whether there are such.
static StatusOr<bool> ranksShareGpus(const Environment &environment, const Device &device, ControlChannel &control) {
  const uint64_t mine = hashName(std::to_string(coreShare().host) + " " + device.memory().memoryName());
  ZTC_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, allGatherValue(control, "GPUs", mine));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t first = size_t(std::ranges::find(all, all[rank]) - all.begin());
    if (first == rank)
      continue;
    if (variable(environment, "ZTC_SHARE_GPUS") == "1")
      return true;
    return failedPrecondition(
        fmt::format("ranks {} and {} are on the same GPU{}: start as many ranks on a host as it has GPUs (for tests, "
                    "ZTC_SHARE_GPUS=1 lets them share one)",
                    first, rank, all[rank] == mine ? ", " + device.memory().memoryName() : ""));
  }
  return false;
}

StatusOr<std::unique_ptr<Communicator>> createCommunicator(const RunOptions &options, const Environment &environment,
                                                           const Device &device, ControlChannel &control) {
  if (control.world() == 1)
    return std::unique_ptr<Communicator>();
  const auto timeoutMs = uint64_t(std::min(options.timeoutSeconds, 30.0) * 1000); // all ranks are here already
  if (wantsGpus(options)) {
    ZTC_ASSIGN_OR_RETURN(const bool sharesGpu, ranksShareGpus(environment, device, control));
    return createNcclCommunicator({.rank = control.rank(),
                                   .world = control.world(),
                                   .timeoutMs = timeoutMs,
                                   .sharesGpu = sharesGpu,
                                   .libraries = cudaLibraries(environment),
                                   .store = storeOf(control)});
  }
  GlooOptions gloo;
  gloo.rank = control.rank();
  gloo.world = control.world();
  gloo.address = control.localAddress();
  gloo.timeoutMs = timeoutMs;
  gloo.library = variable(environment, "ZTC_GLOO_LIBRARY");
  gloo.store = storeOf(control);
  auto made = createGlooCommunicator(gloo);
  ZTC_RETURN_IF_ERROR(agree(&control, "communicator", made.status()));
  return made;
}

} // namespace ztc
