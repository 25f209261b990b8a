// The border between the runtime and libztc-cudnn.so: a C table of functions. No exception, no C++ object and no
// ownership of memory crosses it.
#pragma once
#include <stdint.h>

extern "C" {

/// Changes with every change of the table or of what crosses it: program and module must be of one build.
#define ZTC_CUDNN_VERSION 4u

/// cuDNN for one GPU, or for a GPU that is only described.
typedef struct ZtcCudnn ZtcCudnn;
/// One shape of attention, planned.
typedef struct ZtcCudnnGraph ZtcCudnnGraph;

/// Filled where a function returns something else than 0.
typedef struct ZtcCudnnError {
  char message[500];
} ZtcCudnnError;

enum { ZTC_CUDNN_BF16 = 0, ZTC_CUDNN_F16 = 1 };

/// Tensors of a call, and their indices in what execute gets; the forward form has those up to Lse.
enum {
  ZTC_CUDNN_Q,
  ZTC_CUDNN_K,
  ZTC_CUDNN_V,
  ZTC_CUDNN_OUT,
  ZTC_CUDNN_LSE,
  ZTC_CUDNN_DOUT,
  ZTC_CUDNN_DQ,
  ZTC_CUDNN_DK,
  ZTC_CUDNN_DV,
  ZTC_CUDNN_TENSORS,
  /// Of a packed row, i32: the length of each document, and, with one more at the end, at which element of queries and
  /// results, of keys and values, of a head's lse it begins.
  ZTC_CUDNN_LENGTHS = ZTC_CUDNN_TENSORS,
  ZTC_CUDNN_QUERY_OFFSETS,
  ZTC_CUDNN_KEY_OFFSETS,
  ZTC_CUDNN_LSE_OFFSETS,
  ZTC_CUDNN_ALL_TENSORS
};

/// In elements; those of one head's row follow each other.
typedef struct ZtcCudnnStrides {
  int64_t batch, row, head;
} ZtcCudnnStrides;

/// out = softmax(scale q k^T) v over (batch, seq, heads, headDim), keys and values with kvHeads, and the row statistics
/// lse (batch, heads, seq), f32, natural logarithm; or the gradient of that.
typedef struct ZtcCudnnAttention {
  int32_t type; ///< ZTC_CUDNN_BF16 or ZTC_CUDNN_F16
  int32_t grad;
  int32_t causal;
  int32_t deterministic; ///< of the gradient: what is added up is so in an order of its own, whatever comes first
  /// Of a deterministic gradient, where there are both ways (cuDNN 9.25 and later, on Hopper): dq is added up in the
  /// order of its terms, in workspace that is linear in the sequence. Else it is the product of the cotangents of all
  /// scores, which lie in the workspace: faster, says NVIDIA's frontend.
  int32_t linearWorkspace;
  int64_t window; ///< of causal: a row sees the last `window` columns; 0: all
  int64_t batch, seq, heads, kvHeads, headDim;
  /// 0, or of a packed row, whose `batch` is 1, how many documents it has at most. They lie in a row of `seq` positions
  /// and attend to themselves alone; none is longer than `longest`. Those that are not there have no length and begin
  /// at the row's end.
  int64_t documents, longest;
  float scale;
  ZtcCudnnStrides strides[ZTC_CUDNN_TENSORS]; ///< lse has none: it is whole
} ZtcCudnnAttention;

/// What a library is opened for.
typedef struct ZtcCudnnGpu {
  int32_t computeCapability; ///< 90 of 9.0
  /// Null: the GPU of the current context. Else its properties as cuDNN writes them (JSON): graphs are then checked,
  /// not built, and cannot be executed.
  const char *properties;
} ZtcCudnnGpu;

/// One thread at a time per ZtcCudnn.
typedef struct ZtcCudnnFunctions {
  uint32_t version; ///< ZTC_CUDNN_VERSION of the module

  /// `library` and `driver` are handles of libcudnn and libcuda that stay open; those of the first call count for the
  /// process.
  int (*open)(void *library, void *driver, const ZtcCudnnGpu *gpu, ZtcCudnn **result, ZtcCudnnError *error);
  /// 92600 of 9.26.0.
  uint64_t (*libraryVersion)(ZtcCudnn *cudnn);
  /// Plans a call and says how much workspace it takes. Fails where cuDNN has no engine for it, with its reason.
  int (*create)(ZtcCudnn *cudnn, const ZtcCudnnAttention *shape, ZtcCudnnGraph **result, uint64_t *workspaceBytes,
                ZtcCudnnError *error);
  /// The engine and its settings, as cuDNN names them; lives as long as the graph.
  const char *(*engine)(ZtcCudnnGraph *graph);
  /// Enqueues a call on a CUstream; may be captured. `tensors` by ZTC_CUDNN_*, the workspace begins at 256 bytes.
  int (*execute)(ZtcCudnnGraph *graph, void *stream, void *const *tensors, void *workspace, ZtcCudnnError *error);
  /// After the last CUDA graph that calls it.
  void (*destroy)(ZtcCudnnGraph *graph);
  /// After its graphs.
  void (*close)(ZtcCudnn *cudnn);
} ZtcCudnnFunctions;

/// The module's one symbol.
const ZtcCudnnFunctions *ztcCudnnFunctions(void);
}
