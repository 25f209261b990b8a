// A row-major matrix product by cuBLASLt. What is alike of products is shared: descriptors and algorithm of a call.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// C = alpha op(A) op(B) + beta C, plus a bias to each row, or GELU of that. Sizes and strides in elements; sums are
/// f32.
struct CudaProductShape {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t lda = 0, ldb = 0, ldc = 0;
  bool transposeA = false, transposeB = false;
  uint64_t batch = 1, strideA = 0, strideB = 0, strideC = 0;
  plan::DataType typeA = plan::F32;                   ///< of A and B
  plan::DataType typeB = plan::DATA_TYPE_UNSPECIFIED; ///< of B where that is another one: fp8 codes
  plan::DataType typeC = plan::F32;
  bool tf32 = false;                                 ///< of f32 factors: they are rounded to TF32
  bool adds = false;                                 ///< whether beta is 1 at times
  bool addsBias = false;                             ///< a vector of n in C's type
  bool gelu = false, keepsSums = false;              ///< of a shape that adds a bias: C is GELU; its operand is wanted
  uint32_t alignA = 256, alignB = 256, alignC = 256; ///< bytes that all addresses are multiples of
  uint64_t workspaceBytes = 0;                       ///< without, only algorithms that need none are taken
  uint32_t multiprocessors = 0;                      ///< that it may count on beside collectives; 0: all of the GPU's

  /// Whether A and B are fp8 codes, each with a scale.
  bool isScaled() const;
  uint64_t bytesA() const;
  uint64_t bytesB() const;
  uint64_t bytesC() const;
  uint64_t bytesOfBias() const; ///< 0: none
  uint64_t bytesOfSums() const; ///< 0: none
  /// All that an algorithm may depend on, for a person too: "64x192x64 NT bf16->f32 ld 64,64,192 align 256,256,256 add
  /// workspace 33554432 on 116". N and T: A and B as they are, or transposed.
  std::string signature() const;
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

/// The operands of one execution.
struct CudaProductOperands {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;
  void *workspace = nullptr;                       ///< not read where the shape has none
  const void *scaleA = nullptr, *scaleB = nullptr; ///< of fp8 codes: one f32 each, by which they are multiplied
  const void *added = nullptr;                     ///< what beta multiplies, in C's type and layout; null: what C holds
  const void *bias = nullptr;                      ///< of a shape that adds one
  void *sums = nullptr;                            ///< GELU's operand, as C lies, of a shape that keeps it
};

/// A product as the library sees it, and its algorithm: all steps with this signature share one.
class CudaProductCall {
public:
  /// The one with this shape, made where there is none. Loads the library if nobody has. Fails (FailedPrecondition)
  /// where it has no algorithm.
  static StatusOr<std::shared_ptr<CudaProductCall>> find(CudaResources &resources, const CudaProductShape &shape);

  const CudaProductShape &shape() const { return shape_; }
  /// The library's own choices, what it takes for the fastest first: those that give the same bits each time, round
  /// once, and get along with the workspace. At least one.
  const std::vector<cublaslt::Algorithm> &candidates() const { return candidates_; }
  /// The first candidate until somebody chooses.
  const cublaslt::Algorithm &algorithm() const { return algorithm_; }
  /// Chooses one of any origin. Returns false, and keeps the old one, where the library refuses it for this call or it
  /// is none that could be a candidate.
  bool choose(const cublaslt::Algorithm &algorithm);
  /// Enqueues it. `beta` is 0 or 1.
  Status execute(cuda::Stream stream, const cublaslt::Algorithm &algorithm, const CudaProductOperands &operands,
                 float alpha, float beta) const;

  uint32_t users = 0; ///< products of the plan's steps

private:
  CudaProductCall(CudaResources &resources, const CudaProductShape &shape)
      : shape_(shape), library_(resources.cublasLt), handle_(resources.cublasLtHandle) {}
  Status describe();
  Status layout(CublasLtObject<cublaslt::Layout> &to, plan::DataType type, uint64_t rows, uint64_t columns,
                uint64_t leading, uint64_t stride);
  Status describeEpilogue();
  Status setAddress(int attribute, const void *address) const;
  Status findCandidates();
  bool isEligible(const cublaslt::Algorithm &algorithm, uint64_t workspaceBytes) const;

  const CudaProductShape shape_;
  const CublasLt *library_;
  cublaslt::Handle handle_;
  CublasLtObject<cublaslt::Description> description_;
  CublasLtObject<cublaslt::Layout> first_, second_, result_; ///< the plan's B, A and C
  std::vector<cublaslt::Algorithm> candidates_;
  cublaslt::Algorithm algorithm_{};
};

/// A step's product.
class CudaProduct {
public:
  Status prepare(CudaResources &resources, const CudaProductShape &shape, float alpha = 1);
  /// Enqueues it. `beta` is 0 or 1.
  Status execute(cuda::Stream stream, const CudaProductOperands &operands, float beta) const {
    return call_->execute(stream, call_->algorithm(), operands, alpha_, beta);
  }

private:
  std::shared_ptr<CudaProductCall> call_;
  float alpha_ = 1;
};

} // namespace ztc
