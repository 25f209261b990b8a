// Matrix products of a plan.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>

namespace ztc {
namespace {

class HostGemm : public HostStep {
public:
  explicit HostGemm(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Gemm &gemm = from.step.gemm();
    const bool isNarrow = gemm.type_a() != plan::F32;
    ZTC_RETURN_IF_ERROR(resolve(from, {isNarrow ? 4 : 3}));
    MatmulProblem problem;
    problem.m = gemm.m();
    problem.n = gemm.n();
    problem.k = gemm.k();
    problem.lda = gemm.lda();
    problem.ldb = gemm.ldb();
    problem.ldc = gemm.ldc();
    problem.transposeA = gemm.transpose_a();
    problem.transposeB = gemm.transpose_b();
    problem.alpha = float(gemm.alpha());
    problem.typeA = problem.typeB = gemm.type_a();
    problem.typeC = gemm.type_c();
    if (!problem.m || !problem.n || !problem.k || problem.lda < (problem.transposeA ? problem.m : problem.k) ||
        problem.ldb < (problem.transposeB ? problem.k : problem.n) || problem.ldc < problem.n)
      return dataLoss("sizes and row strides of the matrix product do not fit each other");
    ParallelMatmul::Batch batch{std::max<uint64_t>(1, gemm.batch()), gemm.stride_a(), gemm.stride_b(), gemm.stride_c()};
    auto extent = [&](uint64_t rows, uint64_t columns, uint64_t ld, uint64_t stride) {
      return (batch.count - 1) * stride + (rows - 1) * ld + columns;
    };
    uint64_t bytesA = dataTypeBytes(problem.typeA), bytesC = dataTypeBytes(problem.typeC);
    bool ta = problem.transposeA, tb = problem.transposeB;
    ZTC_RETURN_IF_ERROR(require(
        from, 0, bytesA * extent(ta ? gemm.k() : gemm.m(), ta ? gemm.m() : gemm.k(), gemm.lda(), batch.strideA)));
    ZTC_RETURN_IF_ERROR(require(
        from, 1, bytesA * extent(tb ? gemm.n() : gemm.k(), tb ? gemm.k() : gemm.n(), gemm.ldb(), batch.strideB)));
    ZTC_RETURN_IF_ERROR(require(from, 2, bytesC * extent(gemm.m(), gemm.n(), gemm.ldc(), batch.strideC)));
    if (isNarrow) {
      panelBytes_ = matmulScratchBytes(problem.m, problem.n, problem.k);
      ZTC_RETURN_IF_ERROR(requireElements(from, 3, {resources_.pool.threads(), panelBytes_}, 1));
    }

    accumulate_ = gemm.accumulate();
    if (accumulate_ != plan::ADD) {
      ZTC_ASSIGN_OR_RETURN(overwrite_, Product::prepare(resources_.matmuls, problem, batch));
    }
    if (accumulate_ != plan::OVERWRITE) {
      problem.add = true;
      ZTC_ASSIGN_OR_RETURN(add_, Product::prepare(resources_.matmuls, problem, batch));
    }
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const Product &product = addsNow(accumulate_, microstep) ? add_ : overwrite_;
    std::byte *panels = panelBytes_ ? pointer<std::byte>(3) : nullptr;
    product.execute(resources_.pool, pointer(0), pointer(1), pointer(2), panels, panelBytes_);
    return Status::ok();
  }

private:
  Product overwrite_, add_;
  uint64_t panelBytes_ = 0; ///< of each worker; 0: nothing is widened
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareHostGemm(const HostPrepare &from) {
  auto step = std::make_unique<HostGemm>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
