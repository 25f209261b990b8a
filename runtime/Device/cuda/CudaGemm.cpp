// Matrix products of the plan.
#include "runtime/Device/cuda/CudaProduct.h"
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
    addsBias_ = operands_.count() > 4 && gemm.bias();
    // With GELU the rounded sums may come last.
    keepsSums_ = gemm.gelu() && operands_.count() > 5;
    addsOperand_ = !gemm.gelu() && operands_.count() > size_t(4 + addsBias_);
    if (gemm.gelu() && (!addsBias_ || gemm.batch() > 1))
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
    if ((addsOperand_ || addsBias_) && (accumulate_ != plan::OVERWRITE || gemm.type_c() != gemm.type_a()))
      return dataLoss("a matrix product that adds an operand gives another type, or adds to its result");
    shape.addsBias = addsBias_;
    shape.gelu = gemm.gelu();
    shape.keepsSums = keepsSums_;
    shape.adds = addsOperand_ || accumulate_ != plan::OVERWRITE;
    shape.alignA = productAlignment(operands_.offset(0));
    shape.alignB = productAlignment(operands_.offset(1));
    shape.alignC = productAlignment(operands_.offset(2));
    if (addsOperand_)
      shape.alignC = std::min(shape.alignC, productAlignment(operands_.offset(4)));
    if (keepsSums_)
      shape.alignC = std::min(shape.alignC, productAlignment(operands_.offset(kSumsOperand)));
    hasWorkspace_ = operands_.count() >= 4;
    shape.workspaceBytes = hasWorkspace_ ? operands_.bytes(3) : 0;
    return product_.prepare(resources_, shape, float(gemm.alpha()));
  }

  Status execute(uint32_t microstep) override {
    CudaProductOperands operands{operands_.address(0), operands_.address(1), operands_.address(2),
                                 hasWorkspace_ ? operands_.address(3) : nullptr};
    if (addsOperand_)
      operands.added = operands_.address(4);
    if (addsBias_)
      operands.bias = operands_.address(biasOperand());
    if (keepsSums_)
      operands.sums = operands_.address(kSumsOperand);
    return product_.execute(stream_, operands, addsOperand_ || addsNow(accumulate_, microstep) ? 1.0f : 0.0f);
  }

private:
  static constexpr size_t kSumsOperand = 5;
  size_t biasOperand() const { return 4 + addsOperand_; }

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
    if (addsBias_)
      ZTC_RETURN_IF_ERROR(holds(biasOperand(), gemm.type_c(), 1, gemm.n(), gemm.n(), 0));
    if (keepsSums_)
      ZTC_RETURN_IF_ERROR(holds(kSumsOperand, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), 0));
    if (addsOperand_)
      ZTC_RETURN_IF_ERROR(holds(4, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), gemm.stride_c()));
    return holds(2, gemm.type_c(), gemm.m(), gemm.n(), gemm.ldc(), gemm.stride_c());
  }

  CudaProduct product_;
  bool hasWorkspace_ = false, addsOperand_ = false, addsBias_ = false, keepsSums_ = false;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareCudaGemm(const CudaPrepare &from) {
  auto step = std::make_unique<CudaGemm>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
