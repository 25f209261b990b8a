// cuBLASLt is column-major: a row-major matrix is its own transpose there, so that C = op(A) op(B) becomes
// C' = op(B)' op(A)' with the operands exchanged and no data moved.
#include "runtime/Device/cuda/CudaProduct.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

static StatusOr<int> libraryType(plan::DataType type) {
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

uint32_t productAlignment(uint64_t offset) {
  return uint32_t(std::min<uint64_t>(256, offset ? offset & ~(offset - 1) : 256));
}

Status CudaResources::loadCublasLt() {
  if (cublasLtHandle)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(cublasLt, CublasLt::load(libraries, driver));
  return cublasLt->check(cublasLt->cublasLtCreate(&cublasLtHandle), "cublasLtCreate");
}

Status CudaProduct::prepare(CudaResources &resources, const CudaProductShape &shape) {
  ZTC_RETURN_IF_ERROR(resources.loadCublasLt());
  shape_ = shape;
  library_ = resources.cublasLt;
  handle_ = resources.cublasLtHandle;
  const bool ta = shape.transposeA, tb = shape.transposeB;
  ZTC_RETURN_IF_ERROR(
      library_->check(library_->cublasLtMatmulDescCreate(description_.receive(library_->cublasLtMatmulDescDestroy),
                                                         cublaslt::kCompute32F, cublaslt::kF32),
                      "cublasLtMatmulDescCreate"));
  const int32_t operations[] = {tb ? cublaslt::kOperationT : cublaslt::kOperationN,
                                ta ? cublaslt::kOperationT : cublaslt::kOperationN};
  const int attributes[] = {cublaslt::kDescriptionTransA, cublaslt::kDescriptionTransB};
  for (int i = 0; i < 2; ++i)
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatmulDescSetAttribute(description_.get(), attributes[i], &operations[i], sizeof(int32_t)),
        "cublasLtMatmulDescSetAttribute"));
  // A row of the plan's matrix is a column of the library's.
  ZTC_RETURN_IF_ERROR(
      layout(first_, shape.typeA, tb ? shape.k : shape.n, tb ? shape.n : shape.k, shape.ldb, shape.strideB));
  ZTC_RETURN_IF_ERROR(
      layout(second_, shape.typeA, ta ? shape.m : shape.k, ta ? shape.k : shape.m, shape.lda, shape.strideA));
  ZTC_RETURN_IF_ERROR(layout(result_, shape.typeC, shape.n, shape.m, shape.ldc, shape.strideC));
  return chooseAlgorithm();
}

Status CudaProduct::execute(cuda::Stream stream, const void *a, const void *b, void *c, float beta,
                            void *workspace) const {
  return library_->check(library_->cublasLtMatmul(handle_, description_.get(), &shape_.alpha, b, first_.get(), a,
                                                  second_.get(), &beta, c, result_.get(), c, result_.get(), &algorithm_,
                                                  shape_.workspaceBytes ? workspace : nullptr, shape_.workspaceBytes,
                                                  stream),
                         "cublasLtMatmul");
}

Status CudaProduct::layout(CublasLtObject<cublaslt::Layout> &to, plan::DataType type, uint64_t rows, uint64_t columns,
                           uint64_t leading, uint64_t stride) {
  ZTC_ASSIGN_OR_RETURN(const int kind, libraryType(type));
  ZTC_RETURN_IF_ERROR(
      library_->check(library_->cublasLtMatrixLayoutCreate(to.receive(library_->cublasLtMatrixLayoutDestroy), kind,
                                                           rows, columns, int64_t(leading)),
                      "cublasLtMatrixLayoutCreate"));
  if (shape_.batch <= 1)
    return Status::ok();
  const auto count = int32_t(shape_.batch);
  const auto offset = int64_t(stride);
  ZTC_RETURN_IF_ERROR(library_->check(
      library_->cublasLtMatrixLayoutSetAttribute(to.get(), cublaslt::kLayoutBatchCount, &count, sizeof count),
      "cublasLtMatrixLayoutSetAttribute"));
  return library_->check(
      library_->cublasLtMatrixLayoutSetAttribute(to.get(), cublaslt::kLayoutStridedBatchOffset, &offset, sizeof offset),
      "cublasLtMatrixLayoutSetAttribute");
}

Status CudaProduct::chooseAlgorithm() {
  CublasLtObject<cublaslt::Preference> preference;
  ZTC_RETURN_IF_ERROR(library_->check(
      library_->cublasLtMatmulPreferenceCreate(preference.receive(library_->cublasLtMatmulPreferenceDestroy)),
      "cublasLtMatmulPreferenceCreate"));
  const uint64_t bytes = shape_.workspaceBytes;
  ZTC_RETURN_IF_ERROR(
      library_->check(library_->cublasLtMatmulPreferenceSetAttribute(
                          preference.get(), cublaslt::kPreferenceMaxWorkspaceBytes, &bytes, sizeof bytes),
                      "cublasLtMatmulPreferenceSetAttribute"));
  for (auto [attribute, value] : {std::pair{cublaslt::kPreferenceAlignmentA, shape_.alignB},
                                  {cublaslt::kPreferenceAlignmentB, shape_.alignA},
                                  {cublaslt::kPreferenceAlignmentC, shape_.alignC},
                                  {cublaslt::kPreferenceAlignmentD, shape_.alignC}})
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute"));
  cublaslt::HeuristicResult found{};
  int count = 0;
  const cublaslt::Status status =
      library_->cublasLtMatmulAlgoGetHeuristic(handle_, description_.get(), first_.get(), second_.get(), result_.get(),
                                               result_.get(), preference.get(), 1, &found, &count);
  if (status != cublaslt::kSuccess || count == 0 || found.state != cublaslt::kSuccess)
    return failedPrecondition(fmt::format("{} has no algorithm for a product of {} x {} x {} with a workspace of {} "
                                          "bytes",
                                          library_->version, shape_.m, shape_.n, shape_.k, shape_.workspaceBytes));
  algorithm_ = found.algorithm;
  return Status::ok();
}

} // namespace ztc
