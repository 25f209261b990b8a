#include "runtime/Device/cuda/nccl/NcclCommunicator.h"
#include "runtime/Device/cuda/nccl/NcclApi.h"
#include "runtime/Format/PlanValidator.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <utility>

namespace ztc {
namespace {

constexpr int kOldestNccl = 21800;
constexpr const char *kIdentityKey = "nccl/id", *kGatherIdentityKey = "nccl/id of gathers";
/// Thread blocks of a collective, each on a multiprocessor of its own: rings between eight GPUs are as fast with these,
/// and products know what is left for them.
constexpr int kMostCtas = 16;

/// NCCL's functions by their own names.
struct Nccl {
  using Result = nccl::Result;
  using UniqueId = nccl::UniqueId;
  using Comm = nccl::Comm;
  using Config = nccl::Config;
#define ZTC_DECLARE(function, result, arguments) result(*function) arguments = nullptr;
  ZTC_NCCL_FUNCTIONS(ZTC_DECLARE)
  ZTC_NCCL_LATER_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
  int number = 0; ///< 22809 is 2.28.9
  std::string version;

  static StatusOr<const Nccl *> load(const CudaLibraryPaths &paths);
};

StatusOr<const Nccl *> Nccl::load(const CudaLibraryPaths &paths) {
  static std::mutex mutex;
  static const Nccl *loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded)
    return loaded;
  ZTC_ASSIGN_OR_RETURN(void *opened, openCudaLibrary(kNcclName, paths.nccl, paths));
  auto library = std::make_unique<Nccl>();
#define ZTC_RESOLVE(function, result, arguments)                                                                       \
  library->function = reinterpret_cast<decltype(library->function)>(dlsym(opened, #function));                         \
  if (!library->function)                                                                                              \
    return missingSymbol(kNcclName, #function);
  ZTC_NCCL_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
#define ZTC_RESOLVE(function, result, arguments)                                                                       \
  library->function = reinterpret_cast<decltype(library->function)>(dlsym(opened, #function));
  ZTC_NCCL_LATER_FUNCTIONS(ZTC_RESOLVE)
#undef ZTC_RESOLVE
  library->ncclGetVersion(&library->number);
  const int number = library->number;
  library->version = fmt::format("NCCL {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  if (number < kOldestNccl)
    return failedPrecondition(fmt::format("{} was found, 2.18 is needed: install a later one, or name one in {}",
                                          library->version, kNcclName.variable));
  loaded = library.release();
  return loaded;
}

StatusOr<int> libraryType(plan::DataType type) {
  switch (type) {
  case plan::F32:
    return nccl::kF32;
  case plan::BF16:
    return nccl::kBF16;
  case plan::F16:
    return nccl::kF16;
  case plan::U8:
  case plan::E4M3:
    return nccl::kUint8;
  default:
    return invalidArgument(fmt::format("collectives of type {} are not known", int(type)));
  }
}

/// A variable of NCCL's, unless the user has set it. Returns what holds.
std::string preset(const char *variable, const std::string &value) {
  setenv(variable, value.c_str(), 0);
  return std::getenv(variable);
}

/// NCCL chooses algorithms by size and by what it measures: sums in another order have other bits. Rings with whole
/// messages are as fast as any for buckets. Returns what is pinned, for the log.
std::string pinSums() {
  const std::string algorithm = preset("NCCL_ALGO", "Ring"), protocol = preset("NCCL_PROTO", "Simple");
  return algorithm + " " + protocol;
}

/// Several ranks on one GPU, which NCCL refuses unless it is told otherwise.
void allowSharedGpu(int version, uint32_t rank) {
  constexpr int kHasSwitch = 23000;
  if (version >= kHasSwitch) {
    preset("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    preset("NCCL_NVLS_ENABLE", "0");
  } else {
    // To earlier ones each rank is a host of its own: they talk through sockets.
    preset("NCCL_HOSTID", fmt::format("ztc-{}", rank));
    preset("NCCL_SOCKET_IFNAME", "lo");
    preset("NCCL_IB_DISABLE", "1");
  }
  preset("NCCL_MAX_CTAS", "2"); // kernels that wait for the other rank leave it room
}

class NcclCommunicator : public Communicator {
public:
  NcclCommunicator(const Nccl &library, uint32_t rank, uint32_t world) : Communicator(rank, world), library_(library) {}

  ~NcclCommunicator() override {
    std::lock_guard lock(mutex_);
    if (!comm_)
      return;
    forget();
    // Destroying waits for what is under way; nobody knows whether that ends after an error.
    const bool isWell = error_.isOk() && asyncError() == nccl::kSuccess;
    for (nccl::Comm comm : {gathers_, comm_})
      if (comm && isWell)
        library_.ncclCommDestroy(comm);
      else if (comm)
        abortAside(comm);
  }

  /// Meets the other ranks.
  Status join(const NcclOptions &options) {
    pinned_ = pinSums();
    if (options.sharesGpu)
      allowSharedGpu(library_.number, rank());
    nccl::Config config;
    config.maxCtas = kMostCtas;
    ZTC_RETURN_IF_ERROR(open(comm_, config, kIdentityKey, options));
    // Kernels for windows add in an order of their own: sums have a communicator without any, pinned to rings.
    if (library_.number < nccl::kFirstWithZeroCtas || !library_.ncclCommWindowRegister ||
        !library_.ncclCommWindowDeregister || options.sharesGpu)
      return Status::ok();
    nccl::ConfigWithPolicy gathering;
    gathering.maxCtas = kMostCtas;
    gathering.ctaPolicy = nccl::kZeroCtaPolicy;
    return open(gathers_, gathering, kGatherIdentityKey, options);
  }

  std::string name() const override { return "nccl"; }
  std::string description() const override {
    return library_.version + ", " + pinned_ + (window_ ? ", gathers in windows" : "");
  }
  uint32_t multiprocessors() const override {
    const char *given = std::getenv("NCCL_MAX_CTAS"); // it wins over the communicator's own
    const long most = given ? std::strtol(given, nullptr, 10) : kMostCtas;
    return most > 0 ? uint32_t(most) : uint32_t(kMostCtas);
  }

  Status warm(std::byte *memory, const CollectiveCall &call) override {
    const auto stream = static_cast<cuda::Stream>(call.stream);
    auto *const shard = memory + rank() * kWarmBytes;
    constexpr size_t kElements = kWarmBytes / sizeof(float);
    ZTC_RETURN_IF_ERROR(enqueue("all_gather", call, [&] {
      return library_.ncclAllGather(shard, memory, kElements, nccl::kF32, gatherComm(), stream);
    }));
    ZTC_RETURN_IF_ERROR(enqueue("reduce_scatter", call, [&] {
      return library_.ncclReduceScatter(memory, shard, kElements, nccl::kF32, nccl::kSum, comm_, stream);
    }));
    return enqueue("all_reduce", call, [&] {
      return library_.ncclAllReduce(memory, memory, kElements, nccl::kF32, nccl::kSum, comm_, stream);
    });
  }

  Status registerMemory(std::byte *base, uint64_t bytes) override {
    {
      std::lock_guard lock(mutex_);
      // Only a matter of speed: where it is refused, NCCL copies.
      if (comm_ && error_.isOk() && library_.ncclCommRegister && library_.ncclCommDeregister &&
          library_.ncclCommRegister(comm_, base, bytes, &registered_) != nccl::kSuccess)
        registered_ = nullptr;
      if (!gathers_ || !error_.isOk())
        return error_;
      // All ranks meet in it. Their arenas have one layout: what is gathered lies at one offset.
      const nccl::Result result =
          library_.ncclCommWindowRegister(gathers_, base, bytes, &window_, nccl::kSymmetricWindow);
      if (result != nccl::kSuccess && result != nccl::kInProgress)
        return error_ = unavailable(describe("ncclCommWindowRegister", result));
    }
    return settle("the window over the arena", std::chrono::milliseconds(0));
  }

  void forgetMemory() override {
    std::lock_guard lock(mutex_);
    forget();
  }

  Status allGather(const void *shard, void *full, uint64_t shardElements, plan::DataType type,
                   const CollectiveCall &call) override {
    ZTC_ASSIGN_OR_RETURN(const int kind, libraryType(type));
    count(allGatherBytes_, shardElements * dataTypeBytes(type));
    return enqueue("all_gather", call, [&] {
      return library_.ncclAllGather(shard, full, shardElements, kind, gatherComm(),
                                    static_cast<cuda::Stream>(call.stream));
    });
  }

  Status reduceScatter(void *full, uint64_t shardElements, plan::DataType type, void *, uint64_t,
                       const CollectiveCall &call) override {
    ZTC_ASSIGN_OR_RETURN(const int kind, libraryType(type));
    const uint64_t shardBytes = shardElements * dataTypeBytes(type);
    count(reduceScatterBytes_, shardBytes);
    void *own = static_cast<std::byte *>(full) + rank() * shardBytes; // in place
    return enqueue("reduce_scatter", call, [&] {
      return library_.ncclReduceScatter(full, own, shardElements, kind, nccl::kSum, comm_,
                                        static_cast<cuda::Stream>(call.stream));
    });
  }

  Status allReduce(float *values, uint64_t count, void *, uint64_t, const CollectiveCall &call) override {
    this->count(allReduceBytes_, count * sizeof(float));
    return enqueue("all_reduce", call, [&] {
      return library_.ncclAllReduce(values, values, count, nccl::kF32, nccl::kSum, comm_,
                                    static_cast<cuda::Stream>(call.stream));
    });
  }

  /// As integers: those order as numbers that are not negative do, and a NaN is the largest.
  Status allReduceMax(float *values, uint64_t count, void *, uint64_t, const CollectiveCall &call) override {
    this->count(allReduceBytes_, count * sizeof(float));
    return enqueue("all_reduce", call, [&] {
      return library_.ncclAllReduce(values, values, count, nccl::kUint32, nccl::kMax, comm_,
                                    static_cast<cuda::Stream>(call.stream));
    });
  }

  /// Ranks meet on the control channel, not here.
  Status barrier(const CollectiveCall &call) override {
    return internalError("barrier " + std::string(call.label) + ": GPUs have none of their own");
  }

  Status groupBegin() override { return grouped("ncclGroupStart", library_.ncclGroupStart()); }
  Status groupEnd() override {
    ZTC_RETURN_IF_ERROR(grouped("ncclGroupEnd", library_.ncclGroupEnd()));
    return settle("a group of collectives", std::chrono::milliseconds(0));
  }

  Status status() const override {
    std::lock_guard lock(mutex_);
    if (!error_.isOk())
      return error_;
    const nccl::Result result = asyncError();
    return result == nccl::kSuccess || result == nccl::kInProgress ? Status::ok()
                                                                   : unavailable(describe(last_, result));
  }

  void abort(const std::string &reason) override {
    nccl::Comm given = nullptr, gathers = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (error_.isOk())
        error_ = unavailable(last_.empty() ? reason : last_ + ": " + reason);
      given = std::exchange(comm_, nullptr);
      gathers = std::exchange(gathers_, nullptr);
      registered_ = window_ = nullptr;
    }
    for (nccl::Comm comm : {gathers, given})
      if (comm)
        abortAside(comm);
  }
  bool isLeftBehind() const override { return leftBehind_; }

private:
  /// The first thing that ncclCommAbort does is to end the kernels that wait for other ranks. Then it waits until no
  /// CUDA graph with its collectives is left (init.cc, commDestroySync: localPersistentRefs), and those belong to a
  /// thread that may be waiting for us: so nobody waits for it.
  void abortAside(nccl::Comm comm) {
    leftBehind_ = true;
    std::thread([abort = library_.ncclCommAbort, comm] { abort(comm); }).detach();
  }

  /// Meets the other ranks in a communicator of this configuration.
  template <typename Config>
  Status open(nccl::Comm &comm, Config &config, const char *key, const NcclOptions &options) {
    nccl::UniqueId id;
    if (rank() == 0) {
      if (nccl::Result result = library_.ncclGetUniqueId(&id); result != nccl::kSuccess)
        return failedPrecondition(describe("ncclGetUniqueId", result));
      ZTC_RETURN_IF_ERROR(options.store.set(key, std::string(id.bytes, sizeof id.bytes)));
    } else {
      ZTC_ASSIGN_OR_RETURN(const std::string bytes, options.store.wait(key, options.timeoutMs));
      if (bytes.size() != sizeof id.bytes)
        return dataLoss(fmt::format("an NCCL identity of {} bytes, {} expected", bytes.size(), sizeof id.bytes));
      std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    }
    config.blocking = 0; // so that a rank that does not come can be given up
    const nccl::Result result = library_.ncclCommInitRankConfig(&comm, int(world()), id, int(rank()),
                                                                reinterpret_cast<nccl::Config *>(&config));
    if (result != nccl::kSuccess && result != nccl::kInProgress)
      return unavailable(describe("ncclCommInitRank", result));
    return settle("the ranks' rendezvous", std::chrono::milliseconds(options.timeoutMs));
  }

  /// With the mutex held, or by the only thread left.
  void forget() {
    if (comm_ && registered_)
      library_.ncclCommDeregister(comm_, registered_);
    if (gathers_ && window_)
      library_.ncclCommWindowDeregister(gathers_, window_);
    registered_ = window_ = nullptr;
  }

  /// A communicator connects its rings, whose buffers are hundreds of MiB, with its first collective that is not
  /// between windows. So what comes before the window takes the one that has rings for sums. Ranks agree: whether there
  /// is a window is found when all have met in it.
  nccl::Comm gatherComm() const { return window_ ? gathers_ : comm_; }

  void count(std::atomic<uint64_t> &to, uint64_t shardBytes) {
    to.fetch_add(shardBytes * (world() - 1), std::memory_order_relaxed);
  }

  template <typename Call> Status enqueue(const char *kind, const CollectiveCall &call, Call &&function) {
    {
      std::lock_guard lock(mutex_);
      if (!error_.isOk())
        return error_;
      last_ = call.label.empty() ? kind : call.label;
      const nccl::Result result = function();
      if (result != nccl::kSuccess && result != nccl::kInProgress)
        return error_ = unavailable(describe(last_, result));
    }
    return settle(last_, std::chrono::milliseconds(0));
  }

  Status grouped(const char *what, nccl::Result result) {
    if (result == nccl::kSuccess || result == nccl::kInProgress)
      return Status::ok();
    std::lock_guard lock(mutex_);
    return error_.isOk() ? error_ = unavailable(describe(what, result)) : error_;
  }

  /// A communicator that does not block hands work over in the background; waits until that is done. 0 ms: for ever.
  Status settle(const std::string &what, std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (!error_.isOk())
          return error_;
        const nccl::Result result = asyncError();
        if (result == nccl::kSuccess)
          return Status::ok();
        if (result != nccl::kInProgress)
          return error_ = unavailable(describe(what, result));
        if (limit.count() && std::chrono::steady_clock::now() > until) {
          error_ = unavailable(
              fmt::format("{}: not all of the {} ranks came within {} s", what, world(), double(limit.count()) / 1000));
          return error_;
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  /// With the mutex held.
  nccl::Result asyncError() const {
    nccl::Result result = nccl::kSuccess;
    for (nccl::Comm comm : {comm_, gathers_})
      if (comm && result == nccl::kSuccess)
        library_.ncclCommGetAsyncError(comm, &result);
    return result;
  }

  std::string describe(const std::string &what, nccl::Result result) const {
    const char *text = library_.ncclGetErrorString(result), *last = comm_ ? library_.ncclGetLastError(comm_) : nullptr;
    return fmt::format("{}: {}{}{} ({})", what, text ? text : "an error of NCCL", last && *last ? ": " : "",
                       last ? last : "", library_.version);
  }

  const Nccl &library_;
  nccl::Comm comm_ = nullptr;
  nccl::Comm gathers_ = nullptr; ///< of gathers, where they may be copies; else null
  void *registered_ = nullptr;   ///< the arena, where NCCL took it
  void *window_ = nullptr;       ///< the arena as a window of gathers_, where NCCL took it
  std::string pinned_;           ///< algorithm and protocol
  mutable std::mutex mutex_;     ///< of everything below and of the communicator: abort() comes from other threads
  std::atomic<bool> leftBehind_{false};
  Status error_;
  std::string last_; ///< the collective that was given last
};

} // namespace

StatusOr<std::unique_ptr<Communicator>> createNcclCommunicator(const NcclOptions &options) {
  ZTC_ASSIGN_OR_RETURN(const Nccl *library, Nccl::load(options.libraries));
  auto communicator = std::make_unique<NcclCommunicator>(*library, options.rank, options.world);
  ZTC_RETURN_IF_ERROR(communicator->join(options));
  return std::unique_ptr<Communicator>(std::move(communicator));
}

} // namespace ztc
