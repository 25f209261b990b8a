// Matrix products of the plan.
#include "runtime/Device/cuda/CudaProduct.h"
#include "runtime/Format/GemmOperands.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaGemm : public CudaStep {
public:
  explicit CudaGemm(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Gemm &gemm = from.step.gemm();
    // A fourth operand is workspace; then comes what is added: a matrix, a bias to each row, or both.
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3, 4, 5, gemm.bias() ? 6 : 5}));
    more_ = GemmOperands::of(from.step);
    if (gemm.gelu() && (!more_.bias || gemm.batch() > 1))
      return dataLoss("GELU of a matrix product without a bias");
    ZTC_RETURN_IF_ERROR(checkSizes(gemm));
    accumulate_ = gemm.accumulate();
    CudaProductShape shape;
    shape.m = gemm.m(), shape.n = gemm.n(), shape.k = gemm.k();
    shape.lda = gemm.lda(), shape.ldb = gemm.ldb(), shape.ldc = gemm.ldc();
    shape.transposeA = gemm.transpose_a(), shape.transposeB = gemm.transpose_b();
    shape.batch = gemm.batch();
    shape.strideA = gemm.stride_a(), shape.strideB = gemm.stride_b(), shape.strideC = gemm.stride_c();
    shape.typeA = gemm.type_a(), shape.typeC = gemm.type_c();
    if ((more_.matrix || more_.bias) && (accumulate_ != plan::OVERWRITE || gemm.type_c() != gemm.type_a()))
      return dataLoss("a matrix product that adds an operand gives another type, or adds to its result");
    shape.addsBias = more_.bias;
    shape.gelu = gemm.gelu();
    shape.keepsSums = more_.sums;
    shape.adds = more_.matrix || accumulate_ != plan::OVERWRITE;
    shape.alignA = productAlignment(operands_.offset(0));
    shape.alignB = productAlignment(operands_.offset(1));
    shape.alignC = productAlignment(operands_.offset(2));
    if (more_.matrix)
      shape.alignC = std::min(shape.alignC, productAlignment(operands_.offset(GemmOperands::kMatrix)));
    if (more_.sums)
      shape.alignC = std::min(shape.alignC, productAlignment(operands_.offset(GemmOperands::kSums)));
    hasWorkspace_ = operands_.count() >= 4;
    shape.workspaceBytes = hasWorkspace_ ? operands_.bytes(3) : 0;
    return product_.prepare(resources_, shape, float(gemm.alpha()));
  }

  Status execute(uint32_t microstep) override {
    CudaProductOperands operands{operands_.address(0), operands_.address(1), operands_.address(2),
                                 hasWorkspace_ ? operands_.address(3) : nullptr};
    if (more_.matrix)
      operands.added = operands_.address(GemmOperands::kMatrix);
    if (more_.bias)
      operands.bias = operands_.address(more_.biasIndex());
    if (more_.sums)
      operands.sums = operands_.address(GemmOperands::kSums);
    return product_.execute(stream_, operands, more_.matrix || addsNow(accumulate_, microstep) ? 1.0f : 0.0f);
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
    if (more_.bias)
      ZTC_RETURN_IF_ERROR(holds(more_.biasIndex(), gemm.type_c(), 1, gemm.n(), gemm.n(), 0));
    if (more_.sums)
      ZTC_RETURN_IF_ERROR(holds(GemmOperands::kSums, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), 0));
    if (more_.matrix)
      ZTC_RETURN_IF_ERROR(holds(GemmOperands::kMatrix, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), gemm.stride_c()));
    return holds(2, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), gemm.stride_c());
  }

  CudaProduct product_;
  GemmOperands more_;
  bool hasWorkspace_ = false;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareCudaGemm(const CudaPrepare &from) {
  auto step = std::make_unique<CudaGemm>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
