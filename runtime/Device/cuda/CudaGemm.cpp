// Matrix products through cuBLASLt, which is column-major: a row-major matrix is its own transpose there, so that
// C = op(A) op(B) becomes C' = op(B)' op(A)' with the operands exchanged and no data moved.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

/// A descriptor of the library, destroyed with its owner.
template <typename Handle> class Descriptor {
public:
  Descriptor() = default;
  ~Descriptor() {
    if (handle_)
      destroy_(handle_);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  Handle *receive(cublaslt::Status (*destroy)(Handle)) {
    destroy_ = destroy;
    return &handle_;
  }
  Handle get() const { return handle_; }

private:
  Handle handle_ = nullptr;
  cublaslt::Status (*destroy_)(Handle) = nullptr;
};

StatusOr<int> libraryType(plan::DataType type) {
  switch (type) {
  case plan::F32:
    return cublaslt::kF32;
  case plan::BF16:
    return cublaslt::kBF16;
  case plan::F16:
    return cublaslt::kF16;
  default:
    return dataLoss(fmt::format("a matrix product of type {}", int(type)));
  }
}

/// What the library may take for granted of an address: the largest power of two up to 256 that divides its offset in
/// the arena.
uint32_t alignment(uint64_t offset) {
  return uint32_t(std::min<uint64_t>(256, offset ? offset & ~(offset - 1) : 256));
}

class CudaGemm : public CudaStep {
public:
  explicit CudaGemm(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Gemm &gemm = from.step.gemm();
    // A fourth operand is workspace. Without one, only algorithms that need none are taken.
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3, 4}));
    ZTC_RETURN_IF_ERROR(checkSizes(gemm));
    ZTC_RETURN_IF_ERROR(resources_.loadCublasLt());
    library_ = resources_.cublasLt;
    accumulate_ = gemm.accumulate();
    alpha_ = float(gemm.alpha());
    workspaceBytes_ = operands_.count() == 4 ? operands_.bytes(3) : 0;
    ZTC_RETURN_IF_ERROR(describe(gemm));
    return chooseAlgorithm(gemm);
  }

  Status execute(uint32_t microstep) override {
    const float beta = addsNow(accumulate_, microstep) ? 1.0f : 0.0f;
    void *c = operands_.address(2);
    return library_->check(library_->cublasLtMatmul(resources_.cublasLtHandle, description_.get(), &alpha_,
                                                    operands_.address(1), first_.get(), operands_.address(0),
                                                    second_.get(), &beta, c, result_.get(), c, result_.get(),
                                                    &algorithm_, workspaceBytes_ ? operands_.address(3) : nullptr,
                                                    workspaceBytes_, stream_),
                           "cublasLtMatmul");
  }

private:
  Status checkSizes(const plan::Gemm &gemm) const {
    const bool ta = gemm.transpose_a(), tb = gemm.transpose_b();
    if (!gemm.m() || !gemm.n() || !gemm.k() || gemm.lda() < (ta ? gemm.m() : gemm.k()) ||
        gemm.ldb() < (tb ? gemm.k() : gemm.n()) || gemm.ldc() < gemm.n())
      return dataLoss("sizes and row strides of the matrix product do not fit each other");
    const uint64_t batch = std::max<uint64_t>(1, gemm.batch());
    const auto holds = [&](size_t operand, plan::DataType type, uint64_t rows, uint64_t columns, uint64_t ld,
                           uint64_t stride) {
      const auto elements =
          static_cast<unsigned __int128>(batch - 1) * stride + static_cast<unsigned __int128>(rows - 1) * ld + columns;
      if (elements >> 62)
        return dataLoss(fmt::format("the size of operand {} overflows", operand));
      return operands_.requireElements(operand, {uint64_t(elements)}, dataTypeBytes(type));
    };
    ZTC_RETURN_IF_ERROR(
        holds(0, gemm.type_a(), ta ? gemm.k() : gemm.m(), ta ? gemm.m() : gemm.k(), gemm.lda(), gemm.stride_a()));
    ZTC_RETURN_IF_ERROR(
        holds(1, gemm.type_a(), tb ? gemm.n() : gemm.k(), tb ? gemm.k() : gemm.n(), gemm.ldb(), gemm.stride_b()));
    return holds(2, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), gemm.stride_c());
  }

  Status describe(const plan::Gemm &gemm) {
    ZTC_RETURN_IF_ERROR(
        library_->check(library_->cublasLtMatmulDescCreate(description_.receive(library_->cublasLtMatmulDescDestroy),
                                                           cublaslt::kCompute32F, cublaslt::kF32),
                        "cublasLtMatmulDescCreate"));
    const int32_t operations[] = {gemm.transpose_b() ? cublaslt::kOperationT : cublaslt::kOperationN,
                                  gemm.transpose_a() ? cublaslt::kOperationT : cublaslt::kOperationN};
    const int attributes[] = {cublaslt::kDescriptionTransA, cublaslt::kDescriptionTransB};
    for (int i = 0; i < 2; ++i)
      ZTC_RETURN_IF_ERROR(library_->check(
          library_->cublasLtMatmulDescSetAttribute(description_.get(), attributes[i], &operations[i], sizeof(int32_t)),
          "cublasLtMatmulDescSetAttribute"));
    // A row of the plan's matrix is a column of the library's.
    const bool ta = gemm.transpose_a(), tb = gemm.transpose_b();
    ZTC_RETURN_IF_ERROR(layout(first_, gemm, gemm.type_a(), tb ? gemm.k() : gemm.n(), tb ? gemm.n() : gemm.k(),
                               gemm.ldb(), gemm.stride_b()));
    ZTC_RETURN_IF_ERROR(layout(second_, gemm, gemm.type_a(), ta ? gemm.m() : gemm.k(), ta ? gemm.k() : gemm.m(),
                               gemm.lda(), gemm.stride_a()));
    return layout(result_, gemm, gemm.type_c(), gemm.n(), gemm.m(), gemm.ldc(), gemm.stride_c());
  }

  Status layout(Descriptor<cublaslt::Layout> &to, const plan::Gemm &gemm, plan::DataType type, uint64_t rows,
                uint64_t columns, uint64_t leading, uint64_t stride) {
    ZTC_ASSIGN_OR_RETURN(const int kind, libraryType(type));
    ZTC_RETURN_IF_ERROR(
        library_->check(library_->cublasLtMatrixLayoutCreate(to.receive(library_->cublasLtMatrixLayoutDestroy), kind,
                                                             rows, columns, int64_t(leading)),
                        "cublasLtMatrixLayoutCreate"));
    if (gemm.batch() <= 1)
      return Status::ok();
    const auto count = int32_t(gemm.batch());
    const auto offset = int64_t(stride);
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatrixLayoutSetAttribute(to.get(), cublaslt::kLayoutBatchCount, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute"));
    return library_->check(library_->cublasLtMatrixLayoutSetAttribute(to.get(), cublaslt::kLayoutStridedBatchOffset,
                                                                      &offset, sizeof offset),
                           "cublasLtMatrixLayoutSetAttribute");
  }

  Status chooseAlgorithm(const plan::Gemm &gemm) {
    Descriptor<cublaslt::Preference> preference;
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatmulPreferenceCreate(preference.receive(library_->cublasLtMatmulPreferenceDestroy)),
        "cublasLtMatmulPreferenceCreate"));
    const uint64_t bytes = workspaceBytes_;
    ZTC_RETURN_IF_ERROR(
        library_->check(library_->cublasLtMatmulPreferenceSetAttribute(
                            preference.get(), cublaslt::kPreferenceMaxWorkspaceBytes, &bytes, sizeof bytes),
                        "cublasLtMatmulPreferenceSetAttribute"));
    const uint32_t a = alignment(operands_.offset(1)), b = alignment(operands_.offset(0)),
                   c = alignment(operands_.offset(2));
    for (auto [attribute, value] : {std::pair{cublaslt::kPreferenceAlignmentA, a},
                                    {cublaslt::kPreferenceAlignmentB, b},
                                    {cublaslt::kPreferenceAlignmentC, c},
                                    {cublaslt::kPreferenceAlignmentD, c}})
      ZTC_RETURN_IF_ERROR(library_->check(
          library_->cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute"));
    cublaslt::HeuristicResult found{};
    int count = 0;
    const cublaslt::Status status = library_->cublasLtMatmulAlgoGetHeuristic(
        resources_.cublasLtHandle, description_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
        preference.get(), 1, &found, &count);
    if (status != cublaslt::kSuccess || count == 0 || found.state != cublaslt::kSuccess)
      return failedPrecondition(fmt::format("{} has no algorithm for a product of {} x {} x {} with a workspace of {} "
                                            "bytes",
                                            library_->version, gemm.m(), gemm.n(), gemm.k(), workspaceBytes_));
    algorithm_ = found.algorithm;
    return Status::ok();
  }

  const CublasLt *library_ = nullptr;
  Descriptor<cublaslt::Description> description_;
  Descriptor<cublaslt::Layout> first_, second_, result_; ///< the plan's B, A and C
  cublaslt::Algorithm algorithm_{};
  float alpha_ = 1;
  uint64_t workspaceBytes_ = 0;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

Status CudaResources::loadCublasLt() {
  if (cublasLtHandle)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(cublasLt, CublasLt::load(libraries, driver));
  return cublasLt->check(cublasLt->cublasLtCreate(&cublasLtHandle), "cublasLtCreate");
}

PreparedStep prepareCudaGemm(const CudaPrepare &from) {
  auto step = std::make_unique<CudaGemm>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
