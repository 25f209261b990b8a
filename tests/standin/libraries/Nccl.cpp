// libztc-standin-nccl.so: collectives between the threads or processes of one host through shared memory, in the
// threads of the stand-in driver's streams. Sums are taken in rank order. Ranks that are in different collectives are
// an error here; the real one hangs or mixes their data.
#include "runtime/Core/FloatTypes.h"
#include "runtime/Device/cuda/nccl/NcclApi.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace ztc;

namespace {

constexpr uint32_t kMaxRanks = 64;
constexpr uint64_t kPieceBytes = 64 << 10;

enum class Kind : uint32_t { AllGather, ReduceScatter, AllReduce };

/// What all ranks must agree on.
struct Header {
  Kind kind = Kind::AllGather;
  int32_t type = 0;
  uint64_t elements = 0; ///< of a shard, or of the whole
  uint64_t sequence = 0;
  bool isInGraph = false; ///< of a CUDA graph on all ranks, or on none (NCCL's guide, "Using NCCL with CUDA Graphs")
  bool operator==(const Header &) const = default;
};

/// Begins the shared memory; a piece of each rank's data follows.
struct Shared {
  std::atomic<uint32_t> joined;
  struct Rank {
    std::atomic<uint64_t> phase; ///< barriers that it has reached
    Header header;
  } ranks[kMaxRanks];
};

uint64_t elementBytes(int type) {
  return type == nccl::kF32 || type == nccl::kUint32 ? 4 : type == nccl::kUint8 ? 1 : 2;
}

/// out[i] := the largest of the parts' integers.
void largest(void *out, const std::vector<const std::byte *> &parts, uint64_t elements) {
  for (uint64_t i = 0; i < elements; ++i) {
    uint32_t most = 0;
    for (const std::byte *part : parts) {
      uint32_t value;
      std::memcpy(&value, part + i * sizeof value, sizeof value);
      most = std::max(most, value);
    }
    std::memcpy(static_cast<std::byte *>(out) + i * sizeof most, &most, sizeof most);
  }
}

/// out[i] := the parts' sum in rank order, in f32, rounded once.
void sum(void *out, const std::vector<const std::byte *> &parts, uint64_t elements, int type) {
  for (uint64_t i = 0; i < elements; ++i) {
    float total = 0;
    for (size_t r = 0; r < parts.size(); ++r) {
      float value;
      if (type == nccl::kF32) {
        std::memcpy(&value, parts[r] + i * 4, 4);
      } else {
        uint16_t bits;
        std::memcpy(&bits, parts[r] + i * 2, 2);
        value = type == nccl::kBF16 ? fromBf16(bits) : fromF16(bits);
      }
      total = r == 0 ? value : total + value;
    }
    if (type == nccl::kF32)
      static_cast<float *>(out)[i] = total;
    else
      static_cast<uint16_t *>(out)[i] = type == nccl::kBF16 ? toBf16(total) : toF16(total);
  }
}

/// One rank's side. Work in a stream keeps it alive.
class Communicator {
public:
  Communicator(uint32_t rank, uint32_t world, std::string name) : rank_(rank), world_(world), name_(std::move(name)) {}
  ~Communicator() {
    if (shared_)
      munmap(shared_, bytes());
    if (rank_ == 0)
      shm_unlink(name_.c_str());
  }
  bool join() {
    const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0)
      return false;
    void *memory = MAP_FAILED;
    if (ftruncate(file, off_t(bytes())) == 0)
      memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
      return false;
    shared_ = static_cast<Shared *>(memory);
    shared_->joined.fetch_add(1);
    return true;
  }
  nccl::Result state() const {
    if (error_ != nccl::kSuccess)
      return error_;
    return shared_->joined.load() < world_ ? nccl::kInProgress : nccl::kSuccess;
  }
  void abort() { aborted_ = true; }
  uint32_t rank() const { return rank_; }

  /// In a stream's thread.
  void run(Header header, const std::byte *from, std::byte *to) {
    header.sequence = ++sequence_; // here, not when it is enqueued: a graph repeats it
    shared_->ranks[rank_].header = header;
    if (!meet())
      return;
    for (uint32_t r = 0; r < world_; ++r)
      if (const Header &other = shared_->ranks[r].header; !(other == header)) {
        std::fprintf(stderr,
                     "STAND-IN NCCL: MISMATCHED COLLECTIVES: rank %u is in number %lu of kind %u with %lu elements%s, "
                     "rank %u in number %lu of kind %u with %lu%s\n",
                     rank_, header.sequence, unsigned(header.kind), header.elements,
                     header.isInGraph ? " in a graph" : "", r, other.sequence, unsigned(other.kind), other.elements,
                     other.isInGraph ? " in a graph" : "");
        error_ = nccl::kInvalidUsage;
      }
    // All have seen the headers, and all the same: so all stop here, or none.
    if (!meet() || error_ != nccl::kSuccess)
      return;
    const uint64_t bytes = header.elements * elementBytes(header.type);
    for (uint64_t at = 0; at < bytes; at += kPieceBytes)
      if (!runPiece(header, from, to, bytes, at, std::min(kPieceBytes, bytes - at)))
        return;
  }

private:
  uint64_t bytes() const { return sizeof(Shared) + world_ * kPieceBytes; }
  std::byte *piece(uint32_t rank) const { return reinterpret_cast<std::byte *>(shared_ + 1) + rank * kPieceBytes; }

  /// Returns when all ranks have come; false after abort.
  bool meet() {
    const uint64_t phase = shared_->ranks[rank_].phase.load(std::memory_order_relaxed) + 1;
    shared_->ranks[rank_].phase.store(phase, std::memory_order_release);
    for (uint32_t r = 0; r < world_; ++r)
      for (uint32_t turn = 0; shared_->ranks[r].phase.load(std::memory_order_acquire) < phase; ++turn) {
        if (aborted_)
          return false;
        if (turn < 50)
          std::this_thread::yield();
        else
          std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    return true;
  }

  bool runPiece(const Header &header, const std::byte *from, std::byte *to, uint64_t shardBytes, uint64_t at,
                uint64_t count) {
    // Of a reduce_scatter the shards take turns; the others have one round.
    const bool scatters = header.kind == Kind::ReduceScatter;
    for (uint32_t turn = 0; turn < (scatters ? world_ : 1); ++turn) {
      std::memcpy(piece(rank_), from + (scatters ? turn * shardBytes : 0) + at, count);
      if (!meet())
        return false;
      if (header.kind == Kind::AllGather) {
        for (uint32_t r = 0; r < world_; ++r)
          std::memcpy(to + r * shardBytes + at, piece(r), count);
      } else if (!scatters || turn == rank_) {
        std::vector<const std::byte *> parts;
        for (uint32_t r = 0; r < world_; ++r)
          parts.push_back(piece(r));
        if (header.type == nccl::kUint32)
          largest(to + at, parts, count / elementBytes(header.type));
        else
          sum(to + at, parts, count / elementBytes(header.type), header.type);
      }
      if (!meet())
        return false;
    }
    return true;
  }

  const uint32_t rank_, world_;
  const std::string name_;
  Shared *shared_ = nullptr;
  uint64_t sequence_ = 0;
  std::atomic<bool> aborted_{false};
  std::atomic<nccl::Result> error_{nccl::kSuccess};
};

} // namespace

struct ncclComm {
  std::shared_ptr<Communicator> state;
  bool avoidsCtas;         ///< gathers between windows are copies
  const std::byte *window; ///< null: none
  size_t windowBytes;
  bool hasRings; ///< connected with the first collective that is not between windows
  bool holds(const void *from, uint64_t bytes) const {
    const auto *begin = static_cast<const std::byte *>(from);
    return window && begin >= window && bytes <= windowBytes && begin - window <= std::ptrdiff_t(windowBytes - bytes);
  }
};

namespace {

nccl::Result give(nccl::Comm comm, Kind kind, const void *from, uint64_t fromBytes, void *to, uint64_t toBytes,
                  uint64_t elements, int type, cuda::Stream stream) {
  const bool isInteger =
      (type == nccl::kUint8 && kind == Kind::AllGather) || (type == nccl::kUint32 && kind == Kind::AllReduce);
  if (!comm || (type != nccl::kF32 && type != nccl::kBF16 && type != nccl::kF16 && !isInteger))
    return nccl::kInvalidArgument;
  if (nccl::Result state = comm->state->state(); state != nccl::kSuccess)
    return state == nccl::kInProgress ? nccl::kInvalidUsage : state; // still joining: not to be used yet
  if (!standin::isDeviceMemory(from, fromBytes) || !standin::isDeviceMemory(to, toBytes))
    return nccl::kInvalidArgument;
  const bool isCopy =
      kind == Kind::AllGather && comm->avoidsCtas && comm->holds(from, fromBytes) && comm->holds(to, toBytes);
  if (isCopy)
    standin::countCall("gathers without multiprocessors");
  else if (!std::exchange(comm->hasRings, true))
    standin::countCall("communicators with rings");
  static std::once_flag once; // its channels' buffers
  if (!standin::takeLibraryMemory(once))
    return nccl::kUnhandledCudaError;
  const Header header{kind, type, elements, 0, standin::isCaptured(stream)};
  const bool given = standin::enqueue(stream, [state = comm->state, header, from, to] {
    state->run(header, static_cast<const std::byte *>(from), static_cast<std::byte *>(to));
  });
  return given ? nccl::kSuccess : nccl::kUnhandledCudaError;
}

} // namespace

namespace ztc::nccl {
#define ZTC_DECLARE(function, result, arguments) extern "C" result function arguments;
ZTC_NCCL_FUNCTIONS(ZTC_DECLARE)
ZTC_NCCL_LATER_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE

extern "C" {

const char *ztcStandIn() {
  return "nccl";
}

Result ncclGetVersion(int *version) {
  const char *wanted = std::getenv("ZTC_STAND_IN_NCCL");
  *version = wanted ? std::atoi(wanted) : 22809;
  return kSuccess;
}
const char *ncclGetErrorString(Result result) {
  switch (result) {
  case kInvalidUsage:
    return "invalid usage";
  case kInvalidArgument:
    return "invalid argument";
  case kSystemError:
    return "unhandled system error";
  default:
    return "an error of the stand-in";
  }
}
const char *ncclGetLastError(Comm) {
  return "";
}
Result ncclGetUniqueId(UniqueId *id) {
  static std::atomic<uint32_t> counter{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "/ztc-standin-nccl-%d-%u-%llx", int(getpid()), counter++,
                static_cast<unsigned long long>(now));
  return kSuccess;
}
Result ncclCommInitRankConfig(Comm *comm, int world, UniqueId id, int rank, Config *config) {
  if (world < 1 || world > int(kMaxRanks) || rank < 0 || rank >= world || !config || config->magic != 0xcafebeef ||
      config->size < sizeof(Config))
    return kInvalidArgument;
  int version = 0;
  ncclGetVersion(&version);
  int policy = INT_MIN;
  if (version >= 22700 && config->version >= 22700) {
    if (config->size < sizeof(ConfigWithPolicy))
      return kInvalidArgument;
    policy = reinterpret_cast<ConfigWithPolicy *>(config)->ctaPolicy;
    if (policy != INT_MIN && (policy < 0 || policy > (version >= kFirstWithZeroCtas ? kZeroCtaPolicy : 1)))
      return kInvalidArgument;
  }
  auto state = std::make_shared<Communicator>(uint32_t(rank), uint32_t(world), id.bytes);
  if (!state->join())
    return kSystemError;
  *comm = new ncclComm{std::move(state), policy == kZeroCtaPolicy, nullptr, 0, false};
  return kInProgress;
}
Result ncclCommDestroy(Comm comm) {
  // Waits for its work. The real one waits for graphs too, which hold on to it until they are destroyed.
  for (int turn = 0; comm->state.use_count() > 1 && turn < 2000; ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (comm->state.use_count() > 1)
    standin::misuse("ncclCommDestroy of a communicator that graphs still use: the real one waits for ever");
  delete comm;
  return kSuccess;
}
Result ncclCommAbort(Comm comm) {
  comm->state->abort();
  // As the real one: kernels end at once, but then it waits for graphs, however long they live, and does not look at
  // the abort again (2.28.9, init.cc: commDestroySync).
  while (comm->state.use_count() > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  delete comm;
  return kSuccess;
}
Result ncclCommGetAsyncError(Comm comm, Result *error) {
  *error = comm->state->state();
  return kSuccess;
}
Result ncclCommRegister(const Comm, void *buffer, size_t bytes, void **handle) {
  if (!standin::isDeviceMemory(buffer, bytes))
    return kInvalidArgument;
  *handle = buffer;
  // As the real one: it says that all is well and copies through buffers of its own where the memory is not virtual.
  if (standin::isVirtualMemory(buffer, bytes))
    standin::countCall("arenas that NCCL uses in place");
  return kSuccess;
}
Result ncclCommDeregister(const Comm, void *) {
  return kSuccess;
}
/// As the real one of 2.27 and later: virtual memory alone, the handle is there when the communicator has settled.
Result ncclCommWindowRegister(Comm comm, void *buffer, size_t bytes, void **window, int flags) {
  *window = nullptr;
  if (flags != kSymmetricWindow || !standin::isDeviceMemory(buffer, bytes))
    return kInvalidArgument;
  if (!standin::isVirtualMemory(buffer, bytes))
    return kSuccess;
  comm->window = static_cast<const std::byte *>(buffer);
  comm->windowBytes = bytes;
  *window = buffer;
  standin::countCall("arenas that are windows");
  return kSuccess;
}
Result ncclCommWindowDeregister(Comm comm, void *window) {
  if (comm->window != window)
    return kInvalidArgument;
  comm->window = nullptr;
  return kSuccess;
}
Result ncclAllGather(const void *shard, void *full, size_t elements, int type, Comm comm, cuda::Stream stream) {
  const uint64_t bytes = elements * elementBytes(type);
  return give(comm, Kind::AllGather, shard, bytes, full, bytes, elements, type, stream);
}
Result ncclReduceScatter(const void *full, void *shard, size_t elements, int type, int operation, Comm comm,
                         cuda::Stream stream) {
  const uint64_t bytes = elements * elementBytes(type);
  if (comm->window)
    return kInvalidUsage; // kernels for windows add in another order
  return operation == kSum ? give(comm, Kind::ReduceScatter, full, bytes, shard, bytes, elements, type, stream)
                           : kInvalidArgument;
}
Result ncclAllReduce(const void *from, void *to, size_t elements, int type, int operation, Comm comm,
                     cuda::Stream stream) {
  const uint64_t bytes = elements * elementBytes(type);
  const bool isKnown = operation == kSum ? type != kUint32 : operation == kMax && type == kUint32;
  return isKnown ? give(comm, Kind::AllReduce, from, bytes, to, bytes, elements, type, stream) : kInvalidArgument;
}
Result ncclGroupStart() {
  return kSuccess;
}
Result ncclGroupEnd() {
  return kSuccess;
}

} // extern "C"
} // namespace ztc::nccl
