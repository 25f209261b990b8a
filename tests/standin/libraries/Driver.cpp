// libztc-standin-cuda.so: the driver API without a GPU. Streams are threads, device memory is ordinary memory that only
// they and copies may touch, kernels run on the SIMT engine. It does nothing at once that the real one does later, and
// refuses what that one would not survive.
//
// For tests of messages: ZTC_STAND_IN_DRIVER (version, default 13000; 0: cuInit finds no GPU), ZTC_STAND_IN_GPUS
// (default 1, of which CUDA_VISIBLE_DEVICES shows some), ZTC_STAND_IN_MEMORY (bytes of each, default 8 GiB),
// ZTC_STAND_IN_KILOHERTZ (the clock; 0: it is not told), ZTC_STAND_IN_MIG=1 (the GPUs are slices of one),
// ZTC_STAND_IN_VIRTUAL_MEMORY=0 (there is cuMemAlloc alone), ZTC_STAND_IN_LIBRARIES (bytes that cuBLASLt and NCCL each
// take of the GPU at their first call that computes), ZTC_STAND_IN_ORDER (descending: threads and blocks of a grid
// take their turns in that order), ZTC_STAND_IN_OVERLAP=0 (no kernel is launched while another one ends, and asking for
// it is an error), ZTC_STAND_IN_COPY_MS (how long a download takes that is more than a few values).
#include "tests/standin/libraries/Driver.h"
#include "tests/standin/Simt.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <string>
#include <vector>

using namespace ztc;
using cuda::Result;
using namespace ztc::standin;

struct CUmod_st {
  std::unique_ptr<simt::Image> image;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};
struct CUfunc_st {
  std::string name;
  simt::Entry entry = nullptr;
};

namespace {

thread_local bool hasContext = false;

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

/// The GPUs are slices of one (MIG): they have its bus, and UUIDs of their own.
bool isSliced() {
  return number("ZTC_STAND_IN_MIG", 0) != 0;
}

/// The CUDA version of the assembler that made machine code for GPUs: ptxas of CUDA 13 writes OSABI 0x41, those before
/// 0x33. 0: other code.
int assemblerOf(const void *image) {
  const auto *identity = static_cast<const unsigned char *>(image);
  return identity[EI_OSABI] == 0x41 ? 13000 : identity[EI_OSABI] == 0x33 ? 12000 : 0;
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

} // namespace

namespace ztc::standin {

Driver &driver() {
  static Driver *one = new Driver; // streams may outlive static destruction
  return *one;
}

uint64_t number(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

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

void misuse(const std::string &what) {
  fail(cuda::kLaunchFailed, what);
}

} // namespace ztc::standin

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
  std::snprintf(name, size_t(bytes), "STAND-IN (NO GPU)%s", isSliced() ? " MIG 1g.8gb" : "");
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char *id, int bytes, GpuIndex gpu) {
  std::snprintf(id, size_t(bytes), "0000:%02x:00.0", isSliced() ? 0 : gpu);
  return kSuccess;
}
Result cuDeviceGetUuid_v2(Uuid *uuid, GpuIndex gpu) {
  *uuid = {};
  uuid->bytes[15] = char(gpu);
  return kSuccess;
}
Result cuDeviceGetAttribute(int *value, int attribute, GpuIndex) {
  switch (attribute) {
  case kMaxThreadsPerBlock:
    *value = int(simt::kMaxBlockThreads);
    return kSuccess;
  case kMultiprocessorCount:
    *value = int(number("ZTC_STAND_IN_MULTIPROCESSORS", 1));
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
  case kHasVirtualMemory:
  case kHasFileHandles:
    *value = int(number("ZTC_STAND_IN_VIRTUAL_MEMORY", 1));
    return kSuccess;
  case kHasDirectRdma:
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

// Kernels.
Result cuModuleLoadData(Module *module, const void *image) {
  if (Result result = mayChange("cuModuleLoadData"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return kInvalidImage;
  // A driver loads no machine code of a later major version.
  if (const int assembler = assemblerOf(image))
    return assembler / 1000 > int(number("ZTC_STAND_IN_DRIVER", 13000)) / 1000 ? kInvalidImage : kNoBinaryForGpu;
  const std::string_view bytes(static_cast<const char *>(image), elfBytes(image));
  if (!simt::Image::isImage(bytes))
    return kNoBinaryForGpu;
  auto loaded = simt::Image::load(bytes);
  if (!loaded.isOk()) {
    std::fprintf(stderr, "STAND-IN CUDA: %s\n", loaded.status().message().c_str());
    return kInvalidImage;
  }
  // Accesses that images report are held against what is allocated.
  simt::setMemoryCheck([](const void *address, uint64_t count) { return isReachable(address, count); });
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
Result cuLaunchKernelEx(const LaunchConfiguration *configuration, Function function, void **parameters, void **extra) {
  const LaunchConfiguration &c = *configuration;
  static const char *const overlap = std::getenv("ZTC_STAND_IN_OVERLAP");
  if (c.attributeCount && overlap && std::string(overlap) == "0")
    return kInvalidValue;
  // The one attribute that is known. What it allows, a kernel that overlaps the one before it, is not done here.
  for (unsigned i = 0; i < c.attributeCount; ++i)
    if (c.attributes[i].id != LaunchAttribute().id)
      return kInvalidValue;
  return cuLaunchKernel(function, c.gridX, c.gridY, c.gridZ, c.blockX, c.blockY, c.blockZ, c.sharedBytes, c.stream,
                        parameters, extra);
}

} // extern "C"
} // namespace ztc::cuda
