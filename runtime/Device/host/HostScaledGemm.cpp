// Products of fp8 codes: exact numbers of the codes in f32 panels.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class HostScaledGemm : public HostStep {
public:
  explicit HostScaledGemm(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::ScaledGemm &gemm = from.step.scaled_gemm();
    ZTC_RETURN_IF_ERROR(resolve(from, {6}));
    if (!gemm.m() || !gemm.n() || !gemm.k() || !fp8DataType(gemm.type_a()) || !fp8DataType(gemm.type_b()))
      return dataLoss(fmt::format("no product of fp8 codes of size {} x {} x {} and types {} and {}", gemm.m(),
                                  gemm.n(), gemm.k(), int(gemm.type_a()), int(gemm.type_b())));
    ZTC_RETURN_IF_ERROR(requireElements(from, 0, {gemm.m(), gemm.k()}, 1));
    ZTC_RETURN_IF_ERROR(requireElements(from, 1, {gemm.n(), gemm.k()}, 1));
    for (size_t scale : {2, 3})
      ZTC_RETURN_IF_ERROR(requireElements(from, scale, {2}, sizeof(float)));
    ZTC_RETURN_IF_ERROR(requireElements(from, 4, {gemm.m(), gemm.n()}, dataTypeBytes(gemm.type_c())));
    panelBytes_ = matmulScratchBytes(gemm.m(), gemm.n(), gemm.k());
    ZTC_RETURN_IF_ERROR(requireElements(from, 5, {resources_.pool.threads(), panelBytes_}, 1));
    MatmulProblem problem;
    problem.m = gemm.m(), problem.n = gemm.n(), problem.k = gemm.k();
    problem.lda = problem.ldb = gemm.k();
    problem.ldc = gemm.n();
    problem.transposeB = true;
    problem.typeA = gemm.type_a(), problem.typeB = gemm.type_b(), problem.typeC = gemm.type_c();
    accumulate_ = gemm.accumulate();
    if (accumulate_ != plan::ADD) {
      ZTC_ASSIGN_OR_RETURN(overwrite_, WidenedMatmul::prepareScaled(resources_.matmuls, problem));
    }
    if (accumulate_ != plan::OVERWRITE) {
      if (gemm.type_c() != plan::F32)
        return dataLoss("a product of fp8 codes is added to f32 alone");
      problem.add = true;
      ZTC_ASSIGN_OR_RETURN(add_, WidenedMatmul::prepareScaled(resources_.matmuls, problem));
    }
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const WidenedMatmul &product = addsNow(accumulate_, microstep) ? add_ : overwrite_;
    const float scale = pointer<float>(2)[0] * pointer<float>(3)[0];
    product.execute(resources_.pool, pointer(0), pointer(1), pointer(4), pointer<std::byte>(5), panelBytes_, scale);
    return Status::ok();
  }

private:
  WidenedMatmul overwrite_, add_;
  uint64_t panelBytes_ = 0; ///< of each worker
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareHostScaledGemm(const HostPrepare &from) {
  auto step = std::make_unique<HostScaledGemm>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
