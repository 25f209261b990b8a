// From the command line and the environment to a rank with its channel, its communicator and its share of the host.
#pragma once
#include "runtime/Collective/Communicator.h"
#include "runtime/Device/Device.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include "runtime/Ranks/LaunchEnvironment.h"
#include "runtime/Ranks/SocketChannel.h"
#include "runtime/Train/Options.h"
#include <memory>
#include <variant>

namespace ztc {

/// The variables of this process.
Environment readEnvironment();

/// A rank, or the order to start some. InvalidArgument: usage.
StatusOr<std::variant<RankIdentity, LaunchOrder>> describeLaunch(const RunOptions &options,
                                                                 const Environment &environment);

/// Where the command line names neither a device nor a number of ranks: all GPUs of this host or, where a launcher has
/// started this rank, its own; unchanged where there is none.
RunOptions withDefaultDevice(RunOptions options, const Environment &environment);

/// The cache of this user, ztc in XDG_CACHE_HOME or ~/.cache; empty where neither is known.
std::string userCacheFolder(const Environment &environment);

/// Where NVIDIA's libraries are looked for.
CudaLibraryPaths cudaLibraries(const Environment &environment);

/// With what the environment says of a run: ZTC_CUDA_TUNE, the seconds that measuring algorithms may take (0: none is
/// measured), the cache of this user, and TMPDIR. InvalidArgument: usage.
StatusOr<RunOptions> withEnvironment(RunOptions options, const Environment &environment);

/// What the ranks of a run share and strangers do not have: what ztc-run's launcher made up for its children, else the
/// plan and ZTC_RUN_SECRET. Fails where the plan cannot be read.
StatusOr<std::string> runSecret(const RunOptions &options, const Environment &environment,
                                const RankIdentity &identity);

/// Meets the other ranks; at one rank there is nobody to meet.
JoinResult joinRanks(const RunOptions &options, const Environment &environment, const RankIdentity &identity);

/// Worker threads of this rank: --threads, or its share of the cores that it may use. Ranks of one host that may use
/// the same cores share them; a launcher that bound each rank to cores of its own has divided them already.
StatusOr<uint32_t> threadsOfRank(const RunOptions &options, ControlChannel &control);

/// For --libraries.
std::string libraryReport(const Environment &environment);

/// Ok, or what is missing for the GPUs that the command line asks for. FailedPrecondition.
Status checkDevices(const RunOptions &options, const Environment &environment);

/// What the run must say first where stand-ins take the places of NVIDIA's libraries; empty where they do not.
std::string standInNotice(const RunOptions &options, const Environment &environment);

/// The rank's GPU, or the host with `threads` workers.
StatusOr<std::unique_ptr<Device>> createDevice(const RunOptions &options, const Environment &environment,
                                               const RankIdentity &identity, uint32_t threads);

/// NCCL between GPUs, Gloo between CPU ranks, null at one rank. Their keys are values of the control channel. In the
/// thread that created the device.
StatusOr<std::unique_ptr<Communicator>> createCommunicator(const RunOptions &options, const Environment &environment,
                                                           const Device &device, ControlChannel &control);

} // namespace ztc
