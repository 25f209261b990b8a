// What we use of cuBLASLt, declared here as CudaApi.h declares the driver.
#pragma once
#include "runtime/Device/cuda/CudaApi.h"

struct cublasLtContext;

namespace ztc::cublaslt {

using Status = int; ///< cublasStatus_t
using Handle = cublasLtContext *;
// Opaque descriptors; the library allocates them.
using Description = void *; ///< cublasLtMatmulDesc_t
using Layout = void *;      ///< cublasLtMatrixLayout_t
using Preference = void *;  ///< cublasLtMatmulPreference_t

struct Algorithm { ///< cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct HeuristicResult { ///< cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float wavesCount;
  int reserved[4];
};

inline constexpr Status kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3, kInvalidValue = 7, kArchMismatch = 8,
                        kExecutionFailed = 13, kNotSupported = 15;
inline constexpr int kCompute32F = 68;         ///< cublasComputeType_t: f32 sums, no TF32
inline constexpr int kCompute32FFastTf32 = 77; ///< the same of factors that are rounded to TF32
inline constexpr int kF32 = 0, kF16 = 2, kBF16 = 14, kE4M3 = 28, kE5M2 = 29; ///< cudaDataType
inline constexpr int kDescriptionTransA = 3, kDescriptionTransB = 4;
/// uint32_t: what is done with a sum before it is rounded. Device pointer to what a bias adds: one number for each row
/// of D, as the library sees it, of D's type.
inline constexpr int kDescriptionEpilogue = 7, kDescriptionBiasPointer = 8;
/// int32_t: multiprocessors that an algorithm is chosen for, where others are busy; 0: all.
inline constexpr int kDescriptionSmCountTarget = 15;
/// Device pointers to one f32 each, by which a matrix of fp8 codes is multiplied.
inline constexpr int kDescriptionScaleA = 17, kDescriptionScaleB = 18;
/// Device pointer to where GELU's operand goes, and int64_t: from column to column of it, a multiple of 8.
inline constexpr int kDescriptionEpilogueAuxPointer = 11, kDescriptionEpilogueAuxLd = 12;
inline constexpr uint32_t kEpilogueDefault = 1, kEpilogueBias = 4; ///< cublasLtEpilogue_t
/// GELU of the sum with its bias; the same, which also writes that sum, rounded to D's type.
inline constexpr uint32_t kEpilogueGeluBias = 36, kEpilogueGeluAuxBias = 164;
inline constexpr int kLayoutBatchCount = 5, kLayoutStridedBatchOffset = 6;
inline constexpr int kPreferenceMaxWorkspaceBytes = 1, kPreferenceReductionSchemes = 3, kPreferenceAlignmentA = 5,
                     kPreferenceAlignmentB = 6, kPreferenceAlignmentC = 7, kPreferenceAlignmentD = 8;
inline constexpr int kConfigReductionScheme = 3; ///< cublasLtMatmulAlgoConfigAttributes_t; uint32_t
/// cublasLtReductionScheme_t: how parts of the sum over k are put together. In place they are rounded to C's type on
/// the way, as they are where they are stored in that type.
inline constexpr uint32_t kReductionNone = 0, kReductionInPlace = 1, kReductionComputeType = 2,
                          kReductionOutputType = 4;
inline constexpr int32_t kOperationN = 0, kOperationT = 1; ///< cublasOperation_t

/// X(symbol, result, arguments).
#define ZTC_CUBLASLT_FUNCTIONS(X)                                                                                      \
  X(cublasLtGetVersion, size_t, ())                                                                                    \
  X(cublasLtGetStatusString, const char *, (Status status))                                                            \
  X(cublasLtCreate, Status, (Handle * handle))                                                                         \
  X(cublasLtDestroy, Status, (Handle handle))                                                                          \
  X(cublasLtMatmulDescCreate, Status, (Description * description, int computeType, int scaleType))                     \
  X(cublasLtMatmulDescDestroy, Status, (Description description))                                                      \
  X(cublasLtMatmulDescSetAttribute, Status, (Description description, int attribute, const void *value, size_t bytes)) \
  X(cublasLtMatrixLayoutCreate, Status,                                                                                \
    (Layout * layout, int type, uint64_t rows, uint64_t columns, int64_t leadingDimension))                            \
  X(cublasLtMatrixLayoutDestroy, Status, (Layout layout))                                                              \
  X(cublasLtMatrixLayoutSetAttribute, Status, (Layout layout, int attribute, const void *value, size_t bytes))         \
  X(cublasLtMatmulPreferenceCreate, Status, (Preference * preference))                                                 \
  X(cublasLtMatmulPreferenceDestroy, Status, (Preference preference))                                                  \
  X(cublasLtMatmulPreferenceSetAttribute, Status,                                                                      \
    (Preference preference, int attribute, const void *value, size_t bytes))                                           \
  X(cublasLtMatmulAlgoGetHeuristic, Status,                                                                            \
    (Handle handle, Description description, Layout a, Layout b, Layout c, Layout d, Preference preference,            \
     int requested, HeuristicResult *results, int *returned))                                                          \
  X(cublasLtMatmulAlgoCheck, Status,                                                                                   \
    (Handle handle, Description description, Layout a, Layout b, Layout c, Layout d, const Algorithm *algorithm,       \
     HeuristicResult *result))                                                                                         \
  X(cublasLtMatmulAlgoConfigGetAttribute, Status,                                                                      \
    (const Algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written))                           \
  X(cublasLtMatmul, Status,                                                                                            \
    (Handle handle, Description description, const void *alpha, const void *a, Layout layoutA, const void *b,          \
     Layout layoutB, const void *beta, const void *c, Layout layoutC, void *d, Layout layoutD,                         \
     const Algorithm *algorithm, void *workspace, size_t workspaceBytes, cuda::Stream stream))

} // namespace ztc::cublaslt
