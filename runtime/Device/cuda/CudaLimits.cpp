#include "runtime/Device/cuda/CudaLimits.h"
#include "runtime/Device/cuda/CudaReals.h"
#include "runtime/Device/cuda/CudaTimer.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace ztc {
namespace {

/// A GPU at its power limit takes some tenths of a second to come to its clocks.
constexpr double kWarmSeconds = 0.5;
constexpr int kRepetitions = 30;
constexpr uint64_t kWorkspaceBytes = uint64_t(32) << 20;

/// Device memory that is released again, and a watch.
class Measurement {
public:
  explicit Measurement(CudaResources &resources)
      : driver_(resources.driver), isEmulated_(resources.gpu.isEmulated()), stream_(resources.streams[kComputeStream]),
        watch_(driver_, stream_) {}
  ~Measurement() {
    driver_.cuStreamSynchronize(stream_);
    if (memory_)
      driver_.cuMemFree_v2(memory_);
  }
  Measurement(const Measurement &) = delete;
  Measurement &operator=(const Measurement &) = delete;

  Status create(uint64_t bytes) {
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemAlloc_v2(&memory_, bytes), "cuMemAlloc"));
    ZTC_RETURN_IF_ERROR(watch_.create());
    return fillWithReals(driver_, stream_, memory_, bytes);
  }
  cuda::Address memory() const { return memory_; }

  /// Seconds of `work`, the median of many runs on a warm device.
  StatusOr<double> median(const std::function<Status()> &work) {
    if (!isEmulated_)
      for (double warm = 0; warm < kWarmSeconds;) {
        ZTC_ASSIGN_OR_RETURN(const double seconds, watch_.seconds(work));
        warm += std::max(1e-5, seconds);
      }
    std::vector<double> runs(isEmulated_ ? 3 : kRepetitions);
    for (double &run : runs) {
      ZTC_ASSIGN_OR_RETURN(run, watch_.seconds(work));
    }
    std::nth_element(runs.begin(), runs.begin() + std::ptrdiff_t(runs.size() / 2), runs.end());
    return std::max(1e-9, runs[runs.size() / 2]);
  }

private:
  const CudaDriver &driver_;
  const bool isEmulated_;
  const cuda::Stream stream_;
  cuda::Address memory_ = 0;
  CudaStopwatch watch_;
};

StatusOr<double> copyRate(CudaResources &resources, uint64_t bytes) {
  Measurement measurement(resources);
  ZTC_RETURN_IF_ERROR(measurement.create(2 * bytes));
  ZTC_ASSIGN_OR_RETURN(const double seconds, measurement.median([&] {
    return resources.driver.check(resources.driver.cuMemcpyDtoDAsync_v2(measurement.memory() + bytes,
                                                                        measurement.memory(), bytes,
                                                                        resources.streams[kComputeStream]),
                                  "cuMemcpyDtoDAsync");
  }));
  return 2 * double(bytes) / seconds;
}

/// A plan's step: what is measured is what a plan gets.
StatusOr<double> productRate(CudaResources &resources, uint64_t size, plan::DataType type) {
  plan::Step step;
  plan::Gemm &gemm = *step.mutable_gemm();
  gemm.set_m(size), gemm.set_n(size), gemm.set_k(size);
  gemm.set_lda(size), gemm.set_ldb(size), gemm.set_ldc(size);
  gemm.set_alpha(1);
  gemm.set_type_a(type);
  gemm.set_type_c(type);
  const uint64_t matrixBytes = size * size * dataTypeBytes(type);
  MemoryPlan memory;
  for (uint64_t bytes : {matrixBytes, matrixBytes, matrixBytes, kWorkspaceBytes}) {
    step.add_operands()->set_slot(uint32_t(memory.slots.size()));
    memory.slots.push_back({memory.arenaBytes, bytes});
    memory.arenaBytes += bytes;
  }
  plan::Plan plan;
  for (size_t i = 0; i < memory.slots.size(); ++i)
    plan.add_slots();
  const PrepareContext context{.plan = plan, .memory = memory, .shape = {1, 1, 0}};
  Measurement measurement(resources);
  ZTC_RETURN_IF_ERROR(measurement.create(memory.arenaBytes));
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceStep> product, prepareCudaGemm({step, context, resources}));
  ZTC_RETURN_IF_ERROR(product->initialize(reinterpret_cast<std::byte *>(measurement.memory())));
  ZTC_ASSIGN_OR_RETURN(const double seconds, measurement.median([&] { return product->execute(0); }));
  return 2 * double(size) * double(size) * double(size) / seconds;
}

} // namespace

StatusOr<DeviceLimits> measureCudaLimits(CudaResources &resources, plan::DataType type) {
  // An emulation multiplies one number after the other.
  const uint64_t copyBytes = resources.gpu.isEmulated() ? 1 << 20 : uint64_t(512) << 20;
  const uint64_t size = resources.gpu.isEmulated() ? 64 : 8192;
  DeviceLimits limits;
  const StatusOr<double> copied = copyRate(resources, copyBytes), multiplied = productRate(resources, size, type);
  for (const auto &[rate, into] :
       {std::pair{&copied, &limits.copyBytesPerSecond}, std::pair{&multiplied, &limits.matmulFlopsPerSecond}}) {
    if (rate->isOk())
      *into = **rate;
    else if (rate->status().code() != StatusCode::ResourceExhausted)
      return rate->status();
  }
  if (multiplied.isOk())
    limits.matmulName = fmt::format("{0}x{0}x{0} {1} by {2}", size, dataTypeName(type), resources.cublasLt->version);
  return limits;
}

} // namespace ztc
