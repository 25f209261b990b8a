// What we use of NVIDIA's driver API, declared here so that the runtime builds where no CUDA toolkit is. The names are
// those of libcuda's symbols; tests/unit/runtime/CudaDeclarations.cpp holds them against cuda.h where that is found.
#pragma once
#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace ztc::cuda {

using Result = int; ///< CUresult
using GpuIndex = int;
using Address = unsigned long long; ///< CUdeviceptr
using Context = CUctx_st *;
using Module = CUmod_st *;
using Function = CUfunc_st *;
using Stream = CUstream_st *;
using Event = CUevent_st *;
using Graph = CUgraph_st *;
using GraphExec = CUgraphExec_st *;
using MemoryHandle = unsigned long long; ///< CUmemGenericAllocationHandle

struct Uuid { ///< CUuuid
  char bytes[16];
};
struct MemoryLocation { ///< CUmemLocation
  int type = 1;         ///< a GPU
  int id = 0;
};
struct MemoryProperties { ///< CUmemAllocationProp
  int type = 1;           ///< it stays where it is
  int handleTypes = 0;
  MemoryLocation location;
  void *windows = nullptr;
  unsigned char compression = 0, directRdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct MemoryAccess { ///< CUmemAccessDesc
  MemoryLocation location;
  int flags = 3; ///< read and write
};

// CUresult.
inline constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kStubLibrary = 34,
                        kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201,
                        kNoBinaryForGpu = 209, kInvalidPtx = 218, kUnsupportedPtxVersion = 222, kInvalidHandle = 400,
                        kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kLaunchOutOfResources = 701,
                        kMisalignedAddress = 716, kLaunchFailed = 719, kSystemNotReady = 802,
                        kSystemDriverMismatch = 803, kCaptureUnsupported = 900, kCaptureInvalidated = 901,
                        kCaptureMerge = 902, kCaptureUnmatched = 903, kCaptureUnjoined = 904, kCaptureIsolation = 905,
                        kCapturedEvent = 907, kCaptureWrongThread = 908;
// CUdevice_attribute.
inline constexpr int kMaxThreadsPerBlock = 1, kClockKilohertz = 13, kMultiprocessorCount = 16,
                     kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kHasVirtualMemory = 102,
                     kHasFileHandles = 103, kHasDirectRdma = 110;
inline constexpr int kFileHandle = 1;         ///< CUmemAllocationHandleType
inline constexpr int kMinimumGranularity = 0; ///< CUmemAllocationGranularity_flags
// CUfunction_attribute.
inline constexpr int kFunctionMaxThreads = 0, kFunctionSharedBytes = 1, kFunctionLocalBytes = 3, kFunctionRegisters = 4;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0, kEventDisableTiming = 2;
// CUstreamCaptureMode: calls of this thread alone that cannot be recorded end a capture.
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr unsigned long long kGraphUseNodePriority = 8;
/// CUlaunchAttribute, of the one kind that we set: whether the kernel may begin while the one before it in the stream
/// ends.
struct LaunchAttribute {
  int id = 6; ///< CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  char padding[4] = {};
  int allowed = 1;
  char rest[60] = {};
};
/// CUlaunchConfig.
struct LaunchConfiguration {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
// cuLaunchKernel's `extra`: the parameters as one buffer.
inline void *const kLaunchEnd = nullptr;
inline void *const kLaunchBufferPointer = reinterpret_cast<void *>(uintptr_t(1));
inline void *const kLaunchBufferSize = reinterpret_cast<void *>(uintptr_t(2));

/// X(symbol, arguments): every function of libcuda that we call. All return a Result.
#define ZTC_CUDA_FUNCTIONS(X)                                                                                          \
  X(cuInit, (unsigned flags))                                                                                          \
  X(cuDriverGetVersion, (int *version))                                                                                \
  X(cuGetErrorName, (Result error, const char **name))                                                                 \
  X(cuGetErrorString, (Result error, const char **text))                                                               \
  X(cuDeviceGetCount, (int *count))                                                                                    \
  X(cuDeviceGet, (GpuIndex * gpu, int ordinal))                                                                        \
  X(cuDeviceGetName, (char *name, int bytes, GpuIndex gpu))                                                            \
  X(cuDeviceGetPCIBusId, (char *id, int bytes, GpuIndex gpu))                                                          \
  X(cuDeviceGetAttribute, (int *value, int attribute, GpuIndex gpu))                                                   \
  X(cuDeviceTotalMem_v2, (size_t *bytes, GpuIndex gpu))                                                                \
  X(cuDeviceGetUuid_v2, (Uuid * uuid, GpuIndex gpu))                                                                   \
  X(cuDevicePrimaryCtxRetain, (Context * context, GpuIndex gpu))                                                       \
  X(cuDevicePrimaryCtxRelease_v2, (GpuIndex gpu))                                                                      \
  X(cuCtxSetCurrent, (Context context))                                                                                \
  X(cuMemGetInfo_v2, (size_t *freeBytes, size_t *totalBytes))                                                          \
  X(cuMemAlloc_v2, (Address * address, size_t bytes))                                                                  \
  X(cuMemFree_v2, (Address address))                                                                                   \
  X(cuMemGetAllocationGranularity, (size_t *bytes, const MemoryProperties *properties, int kind))                      \
  X(cuMemAddressReserve, (Address * address, size_t bytes, size_t alignment, Address wish, unsigned long long flags))  \
  X(cuMemAddressFree, (Address address, size_t bytes))                                                                 \
  X(cuMemCreate, (MemoryHandle * memory, size_t bytes, const MemoryProperties *properties, unsigned long long flags))  \
  X(cuMemRelease, (MemoryHandle memory))                                                                               \
  X(cuMemMap, (Address address, size_t bytes, size_t offset, MemoryHandle memory, unsigned long long flags))           \
  X(cuMemUnmap, (Address address, size_t bytes))                                                                       \
  X(cuMemSetAccess, (Address address, size_t bytes, const MemoryAccess *access, size_t count))                         \
  X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                     \
  X(cuMemFreeHost, (void *memory))                                                                                     \
  X(cuMemcpyHtoDAsync_v2, (Address to, const void *from, size_t bytes, Stream stream))                                 \
  X(cuMemcpyDtoHAsync_v2, (void *to, Address from, size_t bytes, Stream stream))                                       \
  X(cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t bytes, Stream stream))                                     \
  X(cuMemsetD8Async, (Address to, unsigned char value, size_t bytes, Stream stream))                                   \
  X(cuLaunchHostFunc, (Stream stream, void (*function)(void *data), void *data))                                       \
  X(cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                                       \
  X(cuStreamDestroy_v2, (Stream stream))                                                                               \
  X(cuStreamSynchronize, (Stream stream))                                                                              \
  X(cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                                                   \
  X(cuEventCreate, (Event * event, unsigned flags))                                                                    \
  X(cuEventDestroy_v2, (Event event))                                                                                  \
  X(cuEventRecord, (Event event, Stream stream))                                                                       \
  X(cuEventSynchronize, (Event event))                                                                                 \
  X(cuEventElapsedTime, (float *milliseconds, Event from, Event to))                                                   \
  X(cuStreamBeginCapture_v2, (Stream stream, int mode))                                                                \
  X(cuStreamEndCapture, (Stream stream, Graph * graph))                                                                \
  X(cuGraphInstantiateWithFlags, (GraphExec * made, Graph graph, unsigned long long flags))                            \
  X(cuGraphLaunch, (GraphExec graph, Stream stream))                                                                   \
  X(cuGraphExecDestroy, (GraphExec graph))                                                                             \
  X(cuGraphDestroy, (Graph graph))                                                                                     \
  X(cuModuleLoadData, (Module * module, const void *image))                                                            \
  X(cuModuleUnload, (Module module))                                                                                   \
  X(cuModuleGetFunction, (Function * function, Module module, const char *name))                                       \
  X(cuFuncGetAttribute, (int *value, int attribute, Function function))                                                \
  X(cuLaunchKernel,                                                                                                    \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,              \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void **parameters, void **extra))                           \
  X(cuLaunchKernelEx, (const LaunchConfiguration *configuration, Function function, void **parameters, void **extra))

} // namespace ztc::cuda
