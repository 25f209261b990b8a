// Our own declarations of NVIDIA's libraries against their headers, where this machine has them: functions by their
// types, constants by their values, structs by their sizes.
#include "runtime/Device/cuda/CublasLtApi.h"
#include "runtime/Device/cuda/CudaApi.h"
#include "runtime/Device/cuda/NvmlApi.h"
#include "runtime/Device/cuda/nccl/NcclApi.h"
#include <gtest/gtest.h>
#ifdef ZTC_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif
#include <type_traits>

namespace {

template <size_t size> struct Bytes {};

/// What the machine sees of a type: enumerations are int, pointers to structs void *, structs their size.
template <typename T> struct Plain {
  using type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <typename T>
  requires std::is_class_v<T>
struct Plain<T> {
  using type = Bytes<sizeof(T)>;
};
template <typename T>
  requires std::is_class_v<T> || std::is_void_v<T>
struct Plain<T *> {
  using type = std::conditional_t<std::is_const_v<T>, const void *, void *>;
};
template <typename T>
  requires(!std::is_class_v<T> && !std::is_void_v<T> && !std::is_function_v<T>)
struct Plain<T *> {
  using type = typename Plain<std::remove_const_t<T>>::type *;
};
template <typename R, typename... A> struct Plain<R(A...)> {
  using type = typename Plain<R>::type(typename Plain<A>::type...);
};
template <typename A, typename B>
inline constexpr bool kSame = std::is_same_v<typename Plain<A>::type, typename Plain<B>::type>;

} // namespace

namespace ztc::cuda {
#define ZTC_CHECK(function, arguments)                                                                                 \
  static_assert(kSame<decltype(::function), Result arguments>, "the declaration of " #function);
ZTC_CUDA_FUNCTIONS(ZTC_CHECK)
#undef ZTC_CHECK
static_assert(sizeof(Address) == sizeof(CUdeviceptr) && sizeof(Uuid) == sizeof(CUuuid) &&
              sizeof(MemoryProperties) == sizeof(CUmemAllocationProp) &&
              sizeof(MemoryAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(MemoryProperties, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(MemoryProperties, directRdma) == offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(kHasVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
              kHasFileHandles == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED &&
              kHasDirectRdma == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED &&
              kFileHandle == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              kMinimumGranularity == CU_MEM_ALLOC_GRANULARITY_MINIMUM && CU_MEM_ALLOCATION_TYPE_PINNED == 1 &&
              CU_MEM_LOCATION_TYPE_DEVICE == 1 && CU_MEM_ACCESS_FLAGS_PROT_READWRITE == 3);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kStubLibrary == CUDA_ERROR_STUB_LIBRARY &&
              kNoDevice == CUDA_ERROR_NO_DEVICE && kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS && kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED &&
              kInvalidHandle == CUDA_ERROR_INVALID_HANDLE && kNotFound == CUDA_ERROR_NOT_FOUND &&
              kInvalidImage == CUDA_ERROR_INVALID_IMAGE && kInvalidContext == CUDA_ERROR_INVALID_CONTEXT &&
              kSystemDriverMismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH &&
              kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
              kCaptureUnjoined == CUDA_ERROR_STREAM_CAPTURE_UNJOINED &&
              kCaptureWrongThread == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
static_assert(kMaxThreadsPerBlock == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
              kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              kClockKilohertz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE &&
              kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              kComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(sizeof(LaunchConfiguration) == sizeof(CUlaunchConfig) &&
              offsetof(LaunchConfiguration, attributes) == offsetof(CUlaunchConfig, attrs) &&
              sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(LaunchAttribute, allowed) == offsetof(CUlaunchAttribute, value) &&
              LaunchAttribute().id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(kFunctionMaxThreads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
              kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
              kEventDefault == CU_EVENT_DEFAULT && kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
} // namespace ztc::cuda

namespace ztc::cublaslt {
#define ZTC_CHECK(function, result, arguments)                                                                         \
  static_assert(kSame<decltype(::function), result arguments>, "the declaration of " #function);
ZTC_CUBLASLT_FUNCTIONS(ZTC_CHECK)
#undef ZTC_CHECK
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kCompute32FFastTf32 == CUBLAS_COMPUTE_32F_FAST_TF32 &&
              kF32 == CUDA_R_32F && kF16 == CUDA_R_16F && kBF16 == CUDA_R_16BF && kE4M3 == CUDA_R_8F_E4M3 &&
              kE5M2 == CUDA_R_8F_E5M2 && kDescriptionScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER &&
              kDescriptionScaleB == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kDescriptionEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              kDescriptionBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
              kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT && kEpilogueBias == CUBLASLT_EPILOGUE_BIAS &&
              kDescriptionEpilogueAuxPointer == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              kDescriptionEpilogueAuxLd == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD &&
              kEpilogueGeluBias == CUBLASLT_EPILOGUE_GELU_BIAS &&
              kEpilogueGeluAuxBias == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
static_assert(kDescriptionTransA == CUBLASLT_MATMUL_DESC_TRANSA && kDescriptionTransB == CUBLASLT_MATMUL_DESC_TRANSB &&
              kLayoutBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              kLayoutStridedBatchOffset == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
              kPreferenceMaxWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              kPreferenceReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
              kPreferenceAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              kPreferenceAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              kPreferenceAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              kPreferenceAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kConfigReductionScheme == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME &&
              kReductionNone == CUBLASLT_REDUCTION_SCHEME_NONE &&
              kReductionInPlace == CUBLASLT_REDUCTION_SCHEME_INPLACE &&
              kReductionComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE &&
              kReductionOutputType == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
static_assert(kOperationN == CUBLAS_OP_N && kOperationT == CUBLAS_OP_T &&
              kInvalidValue == CUBLAS_STATUS_INVALID_VALUE && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED &&
              kExecutionFailed == CUBLAS_STATUS_EXECUTION_FAILED);
} // namespace ztc::cublaslt

#if __has_include(<nvml.h>)
namespace ztc::nvml {
#define ZTC_CHECK(function, arguments)                                                                                 \
  static_assert(kSame<decltype(::function), Result arguments>, "the declaration of " #function);
ZTC_NVML_FUNCTIONS(ZTC_CHECK)
#undef ZTC_CHECK
static_assert(sizeof(MemoryInfo) == sizeof(nvmlMemory_t) && offsetof(MemoryInfo, used) == offsetof(nvmlMemory_t, used));
static_assert(kClockSm == NVML_CLOCK_SM && kTemperatureGpu == NVML_TEMPERATURE_GPU);
} // namespace ztc::nvml
#endif

namespace ztc::nccl {
#define ZTC_CHECK(function, result, arguments)                                                                         \
  static_assert(kSame<decltype(::function), result arguments>, "the declaration of " #function);
ZTC_NCCL_FUNCTIONS(ZTC_CHECK)
ZTC_NCCL_LATER_FUNCTIONS(ZTC_CHECK)
#undef ZTC_CHECK
// The library reads as many bytes of the configuration as its first field says.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(Config, netName) == offsetof(ncclConfig_t, netName) &&
              offsetof(Config, splitShare) == offsetof(ncclConfig_t, splitShare));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(sizeof(ConfigWithPolicy) <= sizeof(ncclConfig_t) &&
              offsetof(ConfigWithPolicy, splitShare) == offsetof(ncclConfig_t, splitShare) &&
              offsetof(ConfigWithPolicy, commName) == offsetof(ncclConfig_t, commName) &&
              offsetof(ConfigWithPolicy, ctaPolicy) == offsetof(ncclConfig_t, CTAPolicy) &&
              offsetof(ConfigWithPolicy, nvlsCtas) == offsetof(ncclConfig_t, nvlsCTAs) &&
              kSymmetricWindow == NCCL_WIN_COLL_SYMMETRIC);
#endif
#ifdef NCCL_CTA_POLICY_ZERO
static_assert(kZeroCtaPolicy == NCCL_CTA_POLICY_ZERO);
#endif
static_assert(kInProgress == ncclInProgress && kInvalidUsage == ncclInvalidUsage && kF32 == ncclFloat32 &&
              kF16 == ncclFloat16 && kBF16 == ncclBfloat16 && kSum == ncclSum);
} // namespace ztc::nccl
#endif

TEST(CudaDeclarations, AreThoseOfNvidiasHeaders) {
#ifndef ZTC_CUDA_HEADERS
  GTEST_SKIP() << "this machine has no CUDA headers (PyPI: nvidia-cuda-runtime, nvidia-cublas, nvidia-nccl)";
#endif
}
