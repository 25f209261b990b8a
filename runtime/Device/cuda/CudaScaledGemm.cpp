// Products of fp8 codes. Both operands have the summed dimension last: in the library's words (column-major) A is
// transposed and B is not, the one form that all GPUs with fp8 have.
#include "runtime/Device/cuda/CudaProduct.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaScaledGemm : public CudaStep {
public:
  explicit CudaScaledGemm(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::ScaledGemm &gemm = from.step.scaled_gemm();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {6}));
    if (!gemm.m() || !gemm.n() || !gemm.k() || !fp8DataType(gemm.type_a()) || !fp8DataType(gemm.type_b()))
      return dataLoss(fmt::format("no product of fp8 codes of size {} x {} x {} and types {} and {}", gemm.m(),
                                  gemm.n(), gemm.k(), int(gemm.type_a()), int(gemm.type_b())));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {gemm.m(), gemm.k()}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {gemm.n(), gemm.k()}, 1));
    for (size_t scale : {2, 3})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(scale, {2}, sizeof(float)));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(4, {gemm.m(), gemm.n()}, dataTypeBytes(gemm.type_c())));
    accumulate_ = gemm.accumulate();
    CudaProductShape shape;
    shape.m = gemm.m(), shape.n = gemm.n(), shape.k = gemm.k();
    shape.lda = shape.ldb = gemm.k();
    shape.ldc = gemm.n();
    shape.transposeB = true;
    shape.typeA = gemm.type_a(), shape.typeB = gemm.type_b(), shape.typeC = gemm.type_c();
    shape.adds = accumulate_ != plan::OVERWRITE;
    shape.alignA = productAlignment(operands_.offset(0));
    shape.alignB = productAlignment(operands_.offset(1));
    shape.alignC = productAlignment(operands_.offset(4));
    shape.workspaceBytes = operands_.bytes(5);
    return product_.prepare(resources_, shape, 1.0f);
  }

  Status execute(uint32_t microstep) override {
    return product_.execute(stream_,
                            {operands_.address(0), operands_.address(1), operands_.address(4), operands_.address(5),
                             operands_.address(2), operands_.address(3)}, // the inverse is a scale's first number
                            addsNow(accumulate_, microstep) ? 1.0f : 0.0f);
  }

private:
  CudaProduct product_;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareCudaScaledGemm(const CudaPrepare &from) {
  auto step = std::make_unique<CudaScaledGemm>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
