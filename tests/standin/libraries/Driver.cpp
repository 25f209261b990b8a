// libztc-standin-cuda.so: the driver API without a GPU. Streams are threads, device memory is ordinary memory that only
// they and copies may touch, kernels run on the SIMT engine. It does nothing at once that the real one does later, and
// refuses what that one would not survive.
//
// For tests of messages: ZTC_STAND_IN_DRIVER (version, default 13000; 0: cuInit finds no GPU), ZTC_STAND_IN_GPUS
// (default 1, of which CUDA_VISIBLE_DEVICES shows some), ZTC_STAND_IN_MEMORY (bytes of each, default 8 GiB),
// ZTC_STAND_IN_KILOHERTZ (the clock; 0: it is not told), ZTC_STAND_IN_ORDER (descending: threads and blocks of a grid
// take their turns in that order), ZTC_STAND_IN_COPY_MS (how long a download takes that is more than a few values).
#include "tests/standin/Simt.h"
#include "tests/standin/libraries/StandIn.h"
#include "tests/standin/libraries/Streams.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace ztc;
using cuda::Address;
using cuda::Result;
using standin::EventState;
using standin::later;

struct CUmod_st {
  std::unique_ptr<simt::Image> image;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};
struct CUfunc_st {
  std::string name;
  simt::Entry entry = nullptr;
};
struct CUctx_st {};

namespace {

struct Driver {
  std::mutex mutex;
  std::atomic<bool> initialized{false};
  std::map<uint64_t, uint64_t> device; ///< live allocations: address, bytes
  std::map<uint64_t, uint64_t> pinned;
  std::map<CUstream_st *, std::shared_ptr<CUstream_st>> streams;
  std::set<CUevent_st *> events;
  std::set<CUmod_st *> modules;
  uint64_t allocated = 0;
  std::atomic<bool> hasContext{false};
  std::atomic<Result> sticky{cuda::kSuccess}; ///< what a kernel or copy did wrong: every later call returns it
  CUctx_st context;
};

Driver &driver() {
  static Driver *one = new Driver; // streams may outlive static destruction
  return *one;
}

thread_local bool hasContext = false;

uint64_t number(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// The GPUs that this process sees, as CUDA_VISIBLE_DEVICES has them: up to the first number that is none of a GPU.
std::vector<int> visibleGpus() {
  const auto count = int(number("ZTC_STAND_IN_GPUS", 1));
  std::vector<int> gpus;
  const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; !text && i < count; ++i)
    gpus.push_back(i);
  while (text && *text) {
    char *end = nullptr;
    const long gpu = std::strtol(text, &end, 10);
    if (end == text || gpu < 0 || gpu >= count)
      break;
    gpus.push_back(int(gpu));
    text = *end == ',' ? end + 1 : end;
  }
  return gpus;
}

bool inside(const std::map<uint64_t, uint64_t> &ranges, uint64_t address, uint64_t bytes) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin())
    return false;
  --after;
  return address - after->first <= after->second && bytes <= after->second - (address - after->first);
}

/// Ok to go on: initialized, with a context in this thread, and nothing has failed.
Result ready() {
  if (!driver().initialized)
    return cuda::kNotInitialized;
  if (!hasContext)
    return cuda::kInvalidContext;
  return driver().sticky;
}

void fail(Result result, const std::string &what) {
  std::fprintf(stderr, "STAND-IN CUDA: %s\n", what.c_str());
  Result none = cuda::kSuccess;
  driver().sticky.compare_exchange_strong(none, result);
}

/// Returns when all streams are empty, as calls of the real one do that release what streams may still use. Others may
/// destroy theirs meanwhile.
void drainAll() {
  std::vector<std::shared_ptr<CUstream_st>> streams;
  {
    std::lock_guard lock(driver().mutex);
    for (const auto &[handle, stream] : driver().streams)
      streams.push_back(stream);
  }
  for (const std::shared_ptr<CUstream_st> &stream : streams)
    stream->drain();
}

bool knowsStream(CUstream_st *stream) {
  std::lock_guard lock(driver().mutex);
  return driver().streams.count(stream) != 0;
}
bool knowsEvent(CUevent_st *event) {
  std::lock_guard lock(driver().mutex);
  return driver().events.count(event) != 0;
}

/// Bytes of an ELF file that lies in memory.
uint64_t elfBytes(const void *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  uint64_t bytes = std::max<uint64_t>(sizeof header, header.e_shoff + uint64_t(header.e_shnum) * header.e_shentsize);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, static_cast<const char *>(image) + header.e_phoff + i * sizeof segment, sizeof segment);
    bytes = std::max(bytes, segment.p_offset + segment.p_filesz);
  }
  return bytes;
}

Result copy(Address to, Address from, size_t bytes, CUstream_st *stream, bool toDevice, bool fromDevice) {
  const auto check = [=] {
    return (!toDevice || standin::isDeviceMemory(reinterpret_cast<void *>(to), bytes)) &&
           (!fromDevice || standin::isDeviceMemory(reinterpret_cast<void *>(from), bytes));
  };
  if (!check())
    return cuda::kInvalidValue;
  return later(stream, [=] {
    if (!check())
      return fail(cuda::kIllegalAddress, "a copy of memory that has been freed meanwhile");
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
  });
}

} // namespace

namespace ztc::standin {

Result later(cuda::Stream stream, std::function<void()> work) {
  if (Result result = ready(); result != cuda::kSuccess)
    return result;
  if (!knowsStream(stream))
    return cuda::kInvalidHandle;
  const auto unlessFailed = [work = std::move(work)] {
    if (driver().sticky == cuda::kSuccess)
      work();
  };
  Result result = cuda::kSuccess;
  if (!noteWork(stream, unlessFailed, result))
    stream->give(unlessFailed);
  return result;
}

bool enqueue(cuda::Stream stream, std::function<void()> work) {
  return later(stream, std::move(work)) == cuda::kSuccess;
}

bool isDeviceMemory(const void *address, uint64_t bytes) {
  std::lock_guard lock(driver().mutex);
  return inside(driver().device, reinterpret_cast<uint64_t>(address), bytes);
}

/// What a kernel may touch: page-locked memory of the host too.
static bool isReachable(const void *address, uint64_t bytes) {
  std::lock_guard lock(driver().mutex);
  const auto at = reinterpret_cast<uint64_t>(address);
  return inside(driver().device, at, bytes) || inside(driver().pinned, at, bytes);
}

uint64_t usedBytes() {
  std::lock_guard lock(driver().mutex);
  return driver().allocated + (driver().hasContext ? uint64_t(64) << 20 : 0);
}

void misuse(const std::string &what) {
  fail(cuda::kLaunchFailed, what);
}

} // namespace ztc::standin

// The list names types of this namespace: each definition below is held against it.
namespace ztc::cuda {
#define ZTC_DECLARE(function, arguments) extern "C" Result function arguments;
ZTC_CUDA_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
} // namespace ztc::cuda

namespace ztc::cuda {
extern "C" {

/// By this symbol the runtime knows a stand-in.
const char *ztcStandIn() {
  return "cuda";
}

Result cuInit(unsigned flags) {
  if (flags != 0)
    return kInvalidValue;
  if (number("ZTC_STAND_IN_DRIVER", 13000) == 0 || visibleGpus().empty())
    return kNoDevice;
  driver().initialized = true;
  return kSuccess;
}
Result cuDriverGetVersion(int *version) {
  *version = int(number("ZTC_STAND_IN_DRIVER", 13000));
  return kSuccess;
}
Result cuGetErrorName(Result error, const char **name) {
  static const std::map<Result, const char *> names = {{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                       {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                       {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                       {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                       {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
                                                       {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                       {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                       {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
                                                       {kNotFound, "CUDA_ERROR_NOT_FOUND"},
                                                       {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                       {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? kInvalidValue : kSuccess;
}
Result cuGetErrorString(Result error, const char **text) {
  *text = "as the stand-in says on stderr";
  return kSuccess;
}
Result cuDeviceGetCount(int *count) {
  *count = int(visibleGpus().size());
  return driver().initialized ? kSuccess : kNotInitialized;
}
Result cuDeviceGet(GpuIndex *gpu, int ordinal) {
  const std::vector<int> gpus = visibleGpus();
  if (ordinal < 0 || ordinal >= int(gpus.size()))
    return kInvalidDevice;
  *gpu = gpus[size_t(ordinal)];
  return kSuccess;
}
Result cuDeviceGetName(char *name, int bytes, GpuIndex) {
  std::snprintf(name, size_t(bytes), "STAND-IN (NO GPU)");
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char *id, int bytes, GpuIndex gpu) {
  std::snprintf(id, size_t(bytes), "0000:%02x:00.0", gpu);
  return kSuccess;
}
Result cuDeviceGetAttribute(int *value, int attribute, GpuIndex) {
  switch (attribute) {
  case kMaxThreadsPerBlock:
    *value = int(simt::kMaxBlockThreads);
    return kSuccess;
  case kMultiprocessorCount:
    *value = 1;
    return kSuccess;
  case kClockKilohertz:
    *value = int(number("ZTC_STAND_IN_KILOHERTZ", 1000000));
    return *value ? kSuccess : kInvalidValue;
  case kComputeCapabilityMajor:
    *value = 9;
    return kSuccess;
  case kComputeCapabilityMinor:
    *value = 0;
    return kSuccess;
  default:
    return kInvalidValue;
  }
}
Result cuDeviceTotalMem_v2(size_t *bytes, GpuIndex) {
  *bytes = number("ZTC_STAND_IN_MEMORY", uint64_t(8) << 30);
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context *context, GpuIndex) {
  *context = &driver().context;
  driver().hasContext = true;
  return driver().initialized ? kSuccess : kNotInitialized;
}
Result cuDevicePrimaryCtxRelease_v2(GpuIndex) {
  return kSuccess;
}
Result cuCtxSetCurrent(Context context) {
  hasContext = context != nullptr;
  return kSuccess;
}

// Memory.
Result cuMemGetInfo_v2(size_t *freeBytes, size_t *totalBytes) {
  if (Result result = ready(); result != kSuccess)
    return result;
  cuDeviceTotalMem_v2(totalBytes, 0);
  std::lock_guard lock(driver().mutex);
  *freeBytes = *totalBytes - driver().allocated;
  return kSuccess;
}
Result cuMemAlloc_v2(Address *address, size_t bytes) {
  if (Result result = standin::mayChange("cuMemAlloc"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  size_t freeBytes = 0, totalBytes = 0;
  if (Result result = cuMemGetInfo_v2(&freeBytes, &totalBytes); result != kSuccess)
    return result;
  if (bytes == 0)
    return kInvalidValue;
  if (bytes > freeBytes)
    return kOutOfMemory;
  void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!memory)
    return kOutOfMemory;
  std::memset(memory, 0xa5, bytes); // not zero: nobody may rely on it
  std::lock_guard lock(driver().mutex);
  *address = reinterpret_cast<Address>(memory);
  driver().device[*address] = bytes;
  driver().allocated += bytes;
  return kSuccess;
}
Result cuMemFree_v2(Address address) {
  if (Result result = standin::mayChange("cuMemFree"); result != kSuccess)
    return result;
  {
    std::lock_guard lock(driver().mutex);
    if (!driver().device.count(address))
      return kInvalidValue;
  }
  drainAll();
  std::lock_guard lock(driver().mutex);
  driver().allocated -= driver().device[address];
  driver().device.erase(address);
  std::free(reinterpret_cast<void *>(address));
  return kSuccess;
}
Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (Result result = standin::mayChange("cuMemHostAlloc"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::lock_guard lock(driver().mutex);
  driver().pinned[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return *memory ? kSuccess : kOutOfMemory;
}
Result cuMemFreeHost(void *memory) {
  std::lock_guard lock(driver().mutex);
  if (!driver().pinned.erase(reinterpret_cast<uint64_t>(memory)))
    return kInvalidValue;
  std::free(memory);
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Stream stream) {
  bool isPinned = false;
  {
    std::lock_guard lock(driver().mutex);
    isPinned = inside(driver().pinned, reinterpret_cast<uint64_t>(from), bytes);
  }
  if (isPinned) // read when its turn comes: who changes it before sees wrong data, as with the real one
    return copy(to, reinterpret_cast<Address>(from), bytes, stream, true, false);
  if (Result result = standin::mayChange("a copy from memory that is not page-locked"); result != kSuccess)
    return result;
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
  if (!standin::isDeviceMemory(reinterpret_cast<void *>(to), bytes))
    return kInvalidValue;
  return later(stream, [=] { std::memcpy(reinterpret_cast<void *>(to), staged->data(), staged->size()); });
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Stream stream) {
  {
    std::lock_guard lock(driver().mutex);
    if (!inside(driver().pinned, reinterpret_cast<uint64_t>(to), bytes)) {
      fail(kInvalidValue, "an asynchronous copy to memory that is not page-locked");
      return kInvalidValue;
    }
  }
  constexpr size_t kFew = 64;
  if (const uint64_t milliseconds = number("ZTC_STAND_IN_COPY_MS", 0); milliseconds && bytes > kFew)
    if (Result result = later(stream, [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
        result != kSuccess)
      return result;
  return copy(reinterpret_cast<Address>(to), from, bytes, stream, false, true);
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream stream) {
  if (to < from + bytes && from < to + bytes) {
    fail(kInvalidValue, "a copy between ranges that overlap");
    return kInvalidValue;
  }
  return copy(to, from, bytes, stream, true, true);
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  if (!standin::isDeviceMemory(reinterpret_cast<void *>(to), bytes))
    return kInvalidValue;
  return later(stream, [=] { std::memset(reinterpret_cast<void *>(to), value, bytes); });
}

// Streams and events.
Result cuStreamCreateWithPriority(Stream *stream, unsigned flags, int) {
  if (Result result = ready(); result != kSuccess)
    return result;
  if (flags != kStreamNonBlocking)
    return kInvalidValue; // others wait for the null stream, which nobody uses here
  auto made = std::make_shared<CUstream_st>();
  *stream = made.get();
  std::lock_guard lock(driver().mutex);
  driver().streams[*stream] = std::move(made);
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream stream) {
  std::shared_ptr<CUstream_st> last; // its end waits for its work: not with the mutex held
  std::lock_guard lock(driver().mutex);
  auto found = driver().streams.find(stream);
  if (found == driver().streams.end())
    return kInvalidHandle;
  last = std::move(found->second);
  driver().streams.erase(found);
  return kSuccess;
}
Result cuStreamSynchronize(Stream stream) {
  if (!knowsStream(stream))
    return kInvalidHandle;
  if (Result result = standin::mayWait(stream); result != kSuccess)
    return result;
  stream->drain();
  return ready();
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  if (!knowsStream(stream) || !knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = kSuccess; standin::noteWait(stream, *state, result))
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = state->recorded;
  lock.unlock();
  if (turn == 0)
    return ready(); // never recorded: nothing to wait for
  stream->give([state, turn] {
    std::unique_lock inner(state->mutex);
    state->changed.wait(inner, [&] { return state->happened >= turn; });
  });
  return ready();
}
Result cuEventCreate(Event *event, unsigned flags) {
  if (Result result = ready(); result != kSuccess)
    return result;
  *event = new CUevent_st;
  (*event)->state->hasTime = !(flags & kEventDisableTiming);
  std::lock_guard lock(driver().mutex);
  driver().events.insert(*event);
  return kSuccess;
}
Result cuEventDestroy_v2(Event event) {
  std::lock_guard lock(driver().mutex);
  if (!driver().events.erase(event))
    return kInvalidHandle;
  delete event;
  return kSuccess;
}
Result cuEventRecord(Event event, Stream stream) {
  if (!knowsStream(stream) || !knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = kSuccess; standin::noteRecord(stream, *state, result))
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = ++state->recorded;
  lock.unlock();
  // Also after a failure: nobody waits for ever.
  stream->give([state, turn] {
    std::lock_guard inner(state->mutex);
    state->happened = std::max(state->happened, turn);
    state->at = std::chrono::steady_clock::now();
    state->changed.notify_all();
  });
  return ready();
}
Result cuEventSynchronize(Event event) {
  if (!knowsEvent(event))
    return kInvalidHandle;
  const std::shared_ptr<EventState> state = event->state;
  if (Result result = standin::mayWait(*state); result != kSuccess)
    return result;
  std::unique_lock lock(state->mutex);
  const uint64_t turn = state->recorded;
  state->changed.wait(lock, [&] { return state->happened >= turn; });
  return ready();
}
Result cuEventElapsedTime(float *milliseconds, Event from, Event to) {
  std::chrono::steady_clock::time_point at[2];
  int i = 0;
  for (Event event : {from, to}) {
    if (!knowsEvent(event) || !event->state->hasTime || event->state->captured.capture)
      return kInvalidHandle;
    std::lock_guard lock(event->state->mutex);
    if (event->state->recorded == 0)
      return kInvalidHandle;
    if (event->state->happened < event->state->recorded)
      return kNotReady;
    at[i++] = event->state->at;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(at[1] - at[0]).count();
  return ready();
}

// Kernels.
Result cuModuleLoadData(Module *module, const void *image) {
  if (Result result = standin::mayChange("cuModuleLoadData"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return kInvalidImage;
  const std::string_view bytes(static_cast<const char *>(image), elfBytes(image));
  if (!simt::Image::isImage(bytes))
    return kNoBinaryForGpu;
  auto loaded = simt::Image::load(bytes);
  if (!loaded.isOk()) {
    std::fprintf(stderr, "STAND-IN CUDA: %s\n", loaded.status().message().c_str());
    return kInvalidImage;
  }
  // Accesses that images report are held against what is allocated.
  simt::setMemoryCheck([](const void *address, uint64_t count) { return standin::isReachable(address, count); });
  *module = new CUmod_st{std::move(*loaded), {}};
  std::lock_guard lock(driver().mutex);
  driver().modules.insert(*module);
  return kSuccess;
}
Result cuModuleUnload(Module module) {
  bool isLast = false;
  {
    std::lock_guard lock(driver().mutex);
    if (!driver().modules.erase(module))
      return kInvalidHandle;
    isLast = driver().modules.empty();
  }
  drainAll();
  delete module;
  if (isLast)
    simt::setMemoryCheck(nullptr); // whoever uses the engine without this driver has memory of its own
  return kSuccess;
}
Result cuModuleGetFunction(Function *function, Module module, const char *name) {
  {
    std::lock_guard lock(driver().mutex);
    if (!driver().modules.count(module))
      return kInvalidHandle;
  }
  const simt::Entry entry = module->image->find(name);
  if (!entry)
    return kNotFound;
  std::unique_ptr<CUfunc_st> &kept = module->functions[name];
  if (!kept)
    kept.reset(new CUfunc_st{name, entry});
  *function = kept.get();
  return kSuccess;
}
Result cuFuncGetAttribute(int *value, int attribute, Function function) {
  if (!function)
    return kInvalidHandle;
  *value = attribute == kFunctionMaxThreads ? int(simt::kMaxBlockThreads) : 0;
  return kSuccess;
}
Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                      unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream stream, void **parameters,
                      void **extra) {
  if (!function || !gridX || !gridY || !gridZ || !blockX || !blockY || !blockZ || gridY > 65535 || gridZ > 65535 ||
      uint64_t(blockX) * blockY * blockZ > simt::kMaxBlockThreads || sharedBytes > 227 << 10)
    return kInvalidValue;
  // Without the kernel's own description its parameters are known by their buffer alone: words of eight bytes.
  if (parameters || !extra || extra[0] != kLaunchBufferPointer || extra[2] != kLaunchBufferSize ||
      extra[4] != kLaunchEnd)
    return kInvalidValue;
  const size_t bytes = *static_cast<size_t *>(extra[3]);
  if (bytes % 8 != 0)
    return kInvalidValue;
  const auto *first = static_cast<const uint64_t *>(extra[1]);
  std::vector<uint64_t> words(first, first + bytes / 8);
  static const char *const order = std::getenv("ZTC_STAND_IN_ORDER");
  static const bool isDescending = order && std::string(order) == "descending";
  const simt::LaunchShape shape{
      {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, isDescending ? simt::Order::Descending : simt::Order::Ascending};
  return later(stream, [function, shape, words = std::move(words)] {
    std::vector<void *> pointers;
    for (const uint64_t &word : words)
      pointers.push_back(const_cast<uint64_t *>(&word));
    if (const ztc::Status status = simt::launch(function->entry, shape, pointers.data()); !status.isOk())
      fail(kLaunchFailed, "kernel " + function->name + ": " + status.message());
  });
}

} // extern "C"
} // namespace ztc::cuda
