// What we use of NCCL, declared here as runtime/Device/cuda/CudaApi.h declares the driver.
#pragma once
#include "runtime/Device/cuda/CudaApi.h"
#include <climits>

struct ncclComm;

namespace ztc::nccl {

using Result = int; ///< ncclResult_t
using Comm = ncclComm *;

struct UniqueId { ///< ncclUniqueId
  char bytes[128];
};

/// ncclConfig_t up to the fields of NCCL 2.18: the library takes shorter ones of earlier versions.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN; ///< INT_MIN: not set
  int cgaClusterSize = INT_MIN;
  int minCtas = INT_MIN;
  int maxCtas = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

/// The same up to the fields of NCCL 2.27, the policy among them.
struct ConfigWithPolicy {
  size_t size = sizeof(ConfigWithPolicy);
  unsigned magic = 0xcafebeef;
  unsigned version = 22700;
  int blocking = INT_MIN;
  int cgaClusterSize = INT_MIN;
  int minCtas = INT_MIN;
  int maxCtas = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
  int trafficClass = INT_MIN;
  const char *commName = nullptr;
  int collnetEnable = INT_MIN;
  int ctaPolicy = INT_MIN;
  int shrinkShare = INT_MIN;
  int nvlsCtas = INT_MIN;
};
/// From 2.28 on: gathers between symmetric windows are copies, and take no multiprocessor, where all ranks are joined
/// by NVLink and the driver is of CUDA 12.5 or later.
inline constexpr int kZeroCtaPolicy = 2;
inline constexpr int kFirstWithZeroCtas = 22800;
/// Of a window: a buffer lies at the same offset on all ranks.
inline constexpr int kSymmetricWindow = 1;

inline constexpr Result kSuccess = 0, kUnhandledCudaError = 1, kSystemError = 2, kInternalError = 3,
                        kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7;
inline constexpr int kF16 = 6, kF32 = 7, kBF16 = 9; ///< ncclDataType_t
inline constexpr int kUint8 = 1, kUint32 = 3;
inline constexpr int kSum = 0, kMax = 2; ///< ncclRedOp_t

/// X(symbol, result, arguments).
#define ZTC_NCCL_FUNCTIONS(X)                                                                                          \
  X(ncclGetVersion, Result, (int *version))                                                                            \
  X(ncclGetErrorString, const char *, (Result result))                                                                 \
  X(ncclGetLastError, const char *, (Comm comm))                                                                       \
  X(ncclGetUniqueId, Result, (UniqueId * id))                                                                          \
  X(ncclCommInitRankConfig, Result, (Comm * comm, int world, UniqueId id, int rank, Config *config))                   \
  X(ncclCommDestroy, Result, (Comm comm))                                                                              \
  X(ncclCommAbort, Result, (Comm comm))                                                                                \
  X(ncclCommGetAsyncError, Result, (Comm comm, Result * error))                                                        \
  X(ncclAllGather, Result,                                                                                             \
    (const void *shard, void *full, size_t shardElements, int type, Comm comm, cuda::Stream stream))                   \
  X(ncclReduceScatter, Result,                                                                                         \
    (const void *full, void *shard, size_t shardElements, int type, int operation, Comm comm, cuda::Stream stream))    \
  X(ncclAllReduce, Result,                                                                                             \
    (const void *from, void *to, size_t elements, int type, int operation, Comm comm, cuda::Stream stream))            \
  X(ncclGroupStart, Result, ())                                                                                        \
  X(ncclGroupEnd, Result, ())

/// Those of NCCL 2.19 and 2.27 and later, which we do without where they are missing.
#define ZTC_NCCL_LATER_FUNCTIONS(X)                                                                                    \
  X(ncclCommRegister, Result, (const Comm comm, void *buffer, size_t bytes, void **handle))                            \
  X(ncclCommDeregister, Result, (const Comm comm, void *handle))                                                       \
  X(ncclCommWindowRegister, Result, (Comm comm, void *buffer, size_t bytes, void **window, int flags))                 \
  X(ncclCommWindowDeregister, Result, (Comm comm, void *window))

} // namespace ztc::nccl
