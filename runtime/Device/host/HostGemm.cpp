// Matrix products of a plan.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/GemmOperands.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>

namespace ztc {
namespace {

class HostGemm : public HostStep {
public:
  explicit HostGemm(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Gemm &gemm = from.step.gemm();
    const bool isNarrow = gemm.type_a() != plan::F32;
    // Operands after the fourth are added. A matrix is copied to where the result will be, and the sum goes on from
    // there; a bias is read where sums are stored, after that.
    more_ = GemmOperands::of(from.step);
    gelu_ = gemm.gelu();
    const bool hasMore = more_.bias || more_.matrix;
    ZTC_RETURN_IF_ERROR(resolve(from, {hasMore ? more_.count() : isNarrow ? 4 : 3}));
    if (gelu_ && (!more_.bias || gemm.batch() > 1))
      return dataLoss("GELU of a matrix product without a bias");
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
    if (hasMore) {
      if (!isNarrow || problem.typeC != problem.typeA || gemm.accumulate() != plan::OVERWRITE)
        return dataLoss("a matrix product that adds an operand gives another type, or adds to its result");
      if (more_.matrix)
        ZTC_RETURN_IF_ERROR(
            require(from, GemmOperands::kMatrix, bytesC * extent(gemm.m(), gemm.n(), gemm.ldc(), batch.strideC)));
      if (more_.bias)
        ZTC_RETURN_IF_ERROR(require(from, more_.biasIndex(), bytesC * gemm.n()));
      if (more_.sums)
        ZTC_RETURN_IF_ERROR(require(from, GemmOperands::kSums, bytesC * extent(gemm.m(), gemm.n(), gemm.ldc(), 0)));
      rows_ = {gemm.m(), batch.count * gemm.m(), bytesC * gemm.n(), bytesC * gemm.ldc(), bytesC * batch.strideC};
    }
    if (isNarrow) {
      panelBytes_ = matmulScratchBytes(problem.m, problem.n, problem.k);
      ZTC_RETURN_IF_ERROR(requireElements(from, 3, {resources_.pool.threads(), panelBytes_}, 1));
    }

    accumulate_ = gemm.accumulate();
    if (accumulate_ != plan::ADD && !more_.matrix) {
      ZTC_ASSIGN_OR_RETURN(overwrite_, Product::prepare(resources_.matmuls, problem, batch));
    }
    if (accumulate_ != plan::OVERWRITE || more_.matrix) {
      problem.add = true;
      ZTC_ASSIGN_OR_RETURN(add_, Product::prepare(resources_.matmuls, problem, batch));
    }
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const Product &product = more_.matrix || addsNow(accumulate_, microstep) ? add_ : overwrite_;
    if (more_.matrix)
      copyAddend();
    std::byte *panels = panelBytes_ ? pointer<std::byte>(3) : nullptr;
    ProductResult result(pointer(2), more_.bias ? pointer<uint16_t>(more_.biasIndex()) : nullptr);
    result.gelu = gelu_;
    result.sums = more_.sums ? pointer<uint16_t>(GemmOperands::kSums) : nullptr;
    product.execute(resources_.pool, pointer(0), pointer(1), result, panels, panelBytes_);
    return Status::ok();
  }

private:
  /// What is added, to where the result will be.
  void copyAddend() {
    constexpr uint64_t kBytesAtATime = 1 << 16;
    auto *to = pointer<std::byte>(2);
    const auto *from = pointer<std::byte>(4);
    resources_.pool.parallelFor(
        rows_.all, std::max<uint64_t>(1, kBytesAtATime / rows_.bytes), [&](uint32_t, uint64_t begin, uint64_t end) {
          for (uint64_t row = begin; row < end; ++row) {
            const uint64_t at = row / rows_.inMatrix * rows_.matrix + row % rows_.inMatrix * rows_.stride;
            std::memcpy(to + at, from + at, rows_.bytes);
          }
        });
  }

  /// Rows of the result: how many a matrix and all have; bytes of one, from one to the next, and from matrix to matrix.
  struct Rows {
    uint64_t inMatrix = 1, all = 0, bytes = 0, stride = 0, matrix = 0;
  };
  Product overwrite_, add_;
  Rows rows_;
  GemmOperands more_;
  bool gelu_ = false;
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
