// A row-major matrix product by cuBLASLt: the descriptors and the algorithm of one shape.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// C = alpha op(A) op(B) + beta C. Sizes and strides in elements; sums are f32.
struct CudaProductShape {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t lda = 0, ldb = 0, ldc = 0;
  bool transposeA = false, transposeB = false;
  uint64_t batch = 1, strideA = 0, strideB = 0, strideC = 0;
  float alpha = 1;
  plan::DataType typeA = plan::F32; ///< of A and B
  plan::DataType typeC = plan::F32;
  uint32_t alignA = 256, alignB = 256, alignC = 256; ///< bytes that all addresses are multiples of
  uint64_t workspaceBytes = 0;                       ///< without, only algorithms that need none are taken
};

/// What the library may take for granted of an address: the largest power of two up to 256 that divides its offset in
/// the arena.
uint32_t productAlignment(uint64_t offset);

/// A descriptor of the library, destroyed with its owner.
template <typename Handle> class CublasLtObject {
public:
  CublasLtObject() = default;
  ~CublasLtObject() {
    if (handle_)
      destroy_(handle_);
  }
  CublasLtObject(const CublasLtObject &) = delete;
  CublasLtObject &operator=(const CublasLtObject &) = delete;
  Handle *receive(cublaslt::Status (*destroy)(Handle)) {
    destroy_ = destroy;
    return &handle_;
  }
  Handle get() const { return handle_; }

private:
  Handle handle_ = nullptr;
  cublaslt::Status (*destroy_)(Handle) = nullptr;
};

class CudaProduct {
public:
  /// Loads the library if nobody has. Fails (FailedPrecondition) where it has no algorithm.
  Status prepare(CudaResources &resources, const CudaProductShape &shape);
  /// Enqueues it. `beta` is 0 or 1; `workspace` is not read where the shape has none.
  Status execute(cuda::Stream stream, const void *a, const void *b, void *c, float beta, void *workspace) const;

private:
  Status layout(CublasLtObject<cublaslt::Layout> &to, plan::DataType type, uint64_t rows, uint64_t columns,
                uint64_t leading, uint64_t stride);
  Status chooseAlgorithm();

  CudaProductShape shape_;
  const CublasLt *library_ = nullptr;
  cublaslt::Handle handle_ = nullptr;
  CublasLtObject<cublaslt::Description> description_;
  CublasLtObject<cublaslt::Layout> first_, second_, result_; ///< the plan's B, A and C
  cublaslt::Algorithm algorithm_{};
};

} // namespace ztc
