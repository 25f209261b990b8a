// cuBLASLt is column-major: a row-major matrix is its own transpose there, so that C = op(A) op(B) becomes
// C' = op(B)' op(A)' with the operands exchanged and no data moved.
#include "runtime/Device/cuda/CudaProduct.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

/// Algorithms that the library is asked for.
static constexpr int kRequested = 16;
/// Algorithms are chosen with it for addresses that are set before each call; it is never dereferenced.
static const void *const kPlaceholder = reinterpret_cast<const void *>(uintptr_t(1) << 20);

static StatusOr<int> libraryType(plan::DataType type) {
  switch (type) {
  case plan::F32:
    return cublaslt::kF32;
  case plan::BF16:
    return cublaslt::kBF16;
  case plan::F16:
    return cublaslt::kF16;
  case plan::E4M3:
    return cublaslt::kE4M3;
  case plan::E5M2:
    return cublaslt::kE5M2;
  default:
    return dataLoss(fmt::format("a matrix product of type {}", int(type)));
  }
}

uint32_t productAlignment(uint64_t offset) {
  return uint32_t(std::min<uint64_t>(256, offset ? offset & ~(offset - 1) : 256));
}

static uint64_t matrixBytes(const CudaProductShape &shape, plan::DataType type, uint64_t rows, uint64_t columns,
                            uint64_t ld, uint64_t stride) {
  const uint64_t others = shape.batch > 1 ? (shape.batch - 1) * stride : 0;
  return (others + (rows - 1) * ld + columns) * dataTypeBytes(type);
}
/// The type of B.
static plan::DataType typeOfB(const CudaProductShape &shape) {
  return shape.typeB == plan::DATA_TYPE_UNSPECIFIED ? shape.typeA : shape.typeB;
}

bool CudaProductShape::isScaled() const {
  return fp8DataType(typeA).has_value();
}
uint64_t CudaProductShape::bytesA() const {
  return matrixBytes(*this, typeA, transposeA ? k : m, transposeA ? m : k, lda, strideA);
}
uint64_t CudaProductShape::bytesB() const {
  return matrixBytes(*this, typeOfB(*this), transposeB ? n : k, transposeB ? k : n, ldb, strideB);
}
uint64_t CudaProductShape::bytesC() const {
  return matrixBytes(*this, typeC, m, n, ldc, strideC);
}
uint64_t CudaProductShape::bytesOfBias() const {
  return addsBias ? n * dataTypeBytes(typeC) : 0;
}
uint64_t CudaProductShape::bytesOfSums() const {
  return keepsSums ? bytesC() : 0;
}

std::string CudaProductShape::signature() const {
  const plan::DataType other = typeOfB(*this);
  return fmt::format("{}x{}x{} {}{} {}{}->{} ld {},{},{}{} align {},{},{}{}{}{}{}{}", m, n, k, transposeA ? "T" : "N",
                     transposeB ? "T" : "N", tf32 ? "tf32" : dataTypeName(typeA),
                     other == typeA ? "" : fmt::format(",{}", dataTypeName(other)), dataTypeName(typeC), lda, ldb, ldc,
                     batch > 1 ? fmt::format(" batch {} by {},{},{}", batch, strideA, strideB, strideC) : "", alignA,
                     alignB, alignC, adds ? " add" : "", addsBias ? " bias" : "",
                     keepsSums ? " gelu of kept sums"
                     : gelu    ? " gelu"
                               : "",
                     workspaceBytes ? fmt::format(" workspace {}", workspaceBytes) : "",
                     multiprocessors ? fmt::format(" on {}", multiprocessors) : "");
}

Status CudaResources::loadCublasLt() {
  if (cublasLtHandle)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(cublasLt, CublasLt::load(libraries, driver));
  return cublasLt->check(cublasLt->cublasLtCreate(&cublasLtHandle), "cublasLtCreate");
}

StatusOr<std::shared_ptr<CudaProductCall>> CudaProductCall::find(CudaResources &resources,
                                                                 const CudaProductShape &shape) {
  std::weak_ptr<CudaProductCall> &known = resources.products[shape.signature()];
  if (std::shared_ptr<CudaProductCall> call = known.lock())
    return call;
  ZTC_RETURN_IF_ERROR(resources.loadCublasLt());
  std::shared_ptr<CudaProductCall> call(new CudaProductCall(resources, shape));
  ZTC_RETURN_IF_ERROR(call->describe());
  ZTC_RETURN_IF_ERROR(call->findCandidates());
  known = call;
  return call;
}

Status CudaProductCall::describe() {
  const bool ta = shape_.transposeA, tb = shape_.transposeB;
  ZTC_RETURN_IF_ERROR(library_->check(
      library_->cublasLtMatmulDescCreate(description_.receive(library_->cublasLtMatmulDescDestroy),
                                         shape_.tf32 ? cublaslt::kCompute32FFastTf32 : cublaslt::kCompute32F,
                                         cublaslt::kF32),
      "cublasLtMatmulDescCreate"));
  const int32_t operations[] = {tb ? cublaslt::kOperationT : cublaslt::kOperationN,
                                ta ? cublaslt::kOperationT : cublaslt::kOperationN};
  const int attributes[] = {cublaslt::kDescriptionTransA, cublaslt::kDescriptionTransB};
  for (int i = 0; i < 2; ++i)
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatmulDescSetAttribute(description_.get(), attributes[i], &operations[i], sizeof(int32_t)),
        "cublasLtMatmulDescSetAttribute"));
  if (const auto count = int32_t(shape_.multiprocessors))
    ZTC_RETURN_IF_ERROR(library_->check(library_->cublasLtMatmulDescSetAttribute(description_.get(),
                                                                                 cublaslt::kDescriptionSmCountTarget,
                                                                                 &count, sizeof count),
                                        "cublasLtMatmulDescSetAttribute"));
  if (shape_.addsBias)
    ZTC_RETURN_IF_ERROR(describeEpilogue());
  // An algorithm that was chosen without scales need not take any.
  if (shape_.isScaled())
    for (int attribute : {cublaslt::kDescriptionScaleA, cublaslt::kDescriptionScaleB})
      ZTC_RETURN_IF_ERROR(setAddress(attribute, kPlaceholder));
  // A row of the plan's matrix is a column of the library's.
  ZTC_RETURN_IF_ERROR(
      layout(first_, typeOfB(shape_), tb ? shape_.k : shape_.n, tb ? shape_.n : shape_.k, shape_.ldb, shape_.strideB));
  ZTC_RETURN_IF_ERROR(
      layout(second_, shape_.typeA, ta ? shape_.m : shape_.k, ta ? shape_.k : shape_.m, shape_.lda, shape_.strideA));
  return layout(result_, shape_.typeC, shape_.n, shape_.m, shape_.ldc, shape_.strideC);
}

/// The library adds the bias along its columns, which are the plan's rows.
Status CudaProductCall::describeEpilogue() {
  const uint32_t epilogue = !shape_.gelu       ? cublaslt::kEpilogueBias
                            : shape_.keepsSums ? cublaslt::kEpilogueGeluAuxBias
                                               : cublaslt::kEpilogueGeluBias;
  // Given a null pointer, the library may ignore the bias; the other one's alignment is what it counts on.
  const auto *aligned = static_cast<const std::byte *>(kPlaceholder) + shape_.alignC;
  const auto ld = int64_t(shape_.ldc);
  const auto set = [&](int attribute, const auto &value) {
    return library_->check(library_->cublasLtMatmulDescSetAttribute(description_.get(), attribute,
                                                                    static_cast<const void *>(&value), sizeof value),
                           "cublasLtMatmulDescSetAttribute");
  };
  ZTC_RETURN_IF_ERROR(set(cublaslt::kDescriptionEpilogue, epilogue));
  if (shape_.keepsSums) {
    ZTC_RETURN_IF_ERROR(setAddress(cublaslt::kDescriptionEpilogueAuxPointer, aligned));
    ZTC_RETURN_IF_ERROR(set(cublaslt::kDescriptionEpilogueAuxLd, ld));
  }
  return setAddress(cublaslt::kDescriptionBiasPointer, kPlaceholder);
}

Status CudaProductCall::setAddress(int attribute, const void *address) const {
  return library_->check(library_->cublasLtMatmulDescSetAttribute(description_.get(), attribute,
                                                                  static_cast<const void *>(&address), sizeof address),
                         "cublasLtMatmulDescSetAttribute");
}

Status CudaProductCall::layout(CublasLtObject<cublaslt::Layout> &to, plan::DataType type, uint64_t rows,
                               uint64_t columns, uint64_t leading, uint64_t stride) {
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

Status CudaProductCall::findCandidates() {
  CublasLtObject<cublaslt::Preference> preference;
  ZTC_RETURN_IF_ERROR(library_->check(
      library_->cublasLtMatmulPreferenceCreate(preference.receive(library_->cublasLtMatmulPreferenceDestroy)),
      "cublasLtMatmulPreferenceCreate"));
  const uint64_t bytes = shape_.workspaceBytes;
  ZTC_RETURN_IF_ERROR(
      library_->check(library_->cublasLtMatmulPreferenceSetAttribute(
                          preference.get(), cublaslt::kPreferenceMaxWorkspaceBytes, &bytes, sizeof bytes),
                      "cublasLtMatmulPreferenceSetAttribute"));
  // Algorithms that do not split k are always among them.
  for (auto [attribute, value] : {std::pair{cublaslt::kPreferenceReductionSchemes, cublaslt::kReductionComputeType},
                                  {cublaslt::kPreferenceAlignmentA, shape_.alignB},
                                  {cublaslt::kPreferenceAlignmentB, shape_.alignA},
                                  {cublaslt::kPreferenceAlignmentC, shape_.alignC},
                                  {cublaslt::kPreferenceAlignmentD, shape_.alignC}})
    ZTC_RETURN_IF_ERROR(library_->check(
        library_->cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute"));
  std::vector<cublaslt::HeuristicResult> found(kRequested);
  int count = 0;
  const cublaslt::Status status =
      library_->cublasLtMatmulAlgoGetHeuristic(handle_, description_.get(), first_.get(), second_.get(), result_.get(),
                                               result_.get(), preference.get(), kRequested, found.data(), &count);
  found.resize(status == cublaslt::kSuccess ? size_t(std::clamp(count, 0, kRequested)) : 0);
  for (const cublaslt::HeuristicResult &one : found)
    if (one.state == cublaslt::kSuccess && isEligible(one.algorithm, one.workspaceBytes))
      candidates_.push_back(one.algorithm);
  if (candidates_.empty())
    return failedPrecondition(
        fmt::format("{} has no algorithm{} for a product of {} x {} x {} with a workspace of {} bytes",
                    library_->version, found.empty() ? "" : " that gives the same bits each time", shape_.m, shape_.n,
                    shape_.k, shape_.workspaceBytes));
  algorithm_ = candidates_.front();
  return Status::ok();
}

bool CudaProductCall::isEligible(const cublaslt::Algorithm &algorithm, uint64_t workspaceBytes) const {
  uint32_t scheme = 0;
  size_t written = 0;
  if (library_->cublasLtMatmulAlgoConfigGetAttribute(&algorithm, cublaslt::kConfigReductionScheme, &scheme,
                                                     sizeof scheme, &written) != cublaslt::kSuccess)
    return false;
  return workspaceBytes <= shape_.workspaceBytes &&
         (scheme == cublaslt::kReductionNone || scheme == cublaslt::kReductionComputeType);
}

bool CudaProductCall::choose(const cublaslt::Algorithm &algorithm) {
  cublaslt::HeuristicResult result{};
  if (library_->cublasLtMatmulAlgoCheck(handle_, description_.get(), first_.get(), second_.get(), result_.get(),
                                        result_.get(), &algorithm, &result) != cublaslt::kSuccess ||
      result.state != cublaslt::kSuccess || !isEligible(algorithm, result.workspaceBytes))
    return false;
  algorithm_ = algorithm;
  return true;
}

Status CudaProductCall::execute(cuda::Stream stream, const cublaslt::Algorithm &algorithm,
                                const CudaProductOperands &operands, float alpha, float beta) const {
  // The library's first matrix is B. What else it reads and writes has its address set before each call, by a single
  // thread.
  if (shape_.addsBias)
    ZTC_RETURN_IF_ERROR(setAddress(cublaslt::kDescriptionBiasPointer, operands.bias));
  if (shape_.keepsSums)
    ZTC_RETURN_IF_ERROR(setAddress(cublaslt::kDescriptionEpilogueAuxPointer, operands.sums));
  if (shape_.isScaled()) {
    ZTC_RETURN_IF_ERROR(setAddress(cublaslt::kDescriptionScaleA, operands.scaleB));
    ZTC_RETURN_IF_ERROR(setAddress(cublaslt::kDescriptionScaleB, operands.scaleA));
  }
  return library_->check(
      library_->cublasLtMatmul(handle_, description_.get(), &alpha, operands.b, first_.get(), operands.a, second_.get(),
                               &beta, operands.added ? operands.added : operands.c, result_.get(), operands.c,
                               result_.get(), &algorithm, shape_.workspaceBytes ? operands.workspace : nullptr,
                               shape_.workspaceBytes, stream),
      "cublasLtMatmul");
}

Status CudaProduct::prepare(CudaResources &resources, const CudaProductShape &shape, float alpha) {
  alpha_ = alpha;
  CudaProductShape called = shape;
  called.tf32 = resources.tf32 && shape.typeA == plan::F32;
  called.multiprocessors = resources.productMultiprocessors;
  ZTC_ASSIGN_OR_RETURN(call_, CudaProductCall::find(resources, called));
  ++call_->users;
  return Status::ok();
}

} // namespace ztc
