// Rows of a table by index: the embedding and its gradient. The kernels are generated, see
// runtime/Format/ServiceKernels.md.
#include "runtime/Device/TableIndex.h"
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <numeric>

namespace ztc {

TokenFault::TokenFault(CudaResources &resources, uint64_t rows, Kind kind, uint64_t choices)
    : resources_(resources), rows_(rows), choices_(choices), kind_(kind) {
  resources_.faults.push_back(this);
}

TokenFault::~TokenFault() {
  std::erase(resources_.faults, this);
  if (word_)
    resources_.driver.cuMemFreeHost(word_);
}

Status TokenFault::create() {
  void *memory = nullptr;
  ZTC_RETURN_IF_ERROR(
      resources_.driver.check(resources_.driver.cuMemHostAlloc(&memory, sizeof *word_, 0), "cuMemHostAlloc"));
  word_ = static_cast<uint64_t *>(memory);
  *word_ = 0;
  return Status::ok();
}

Status TokenFault::take() {
  if (!word_ || std::atomic_ref(*word_).load() == 0)
    return Status::ok();
  const uint64_t found = std::atomic_ref(*word_).exchange(0);
  const auto number = int32_t(uint32_t(found));
  const uint64_t position = (found >> 32) - 1;
  if (kind_ == Kind::Place)
    return invalidArgument(
        fmt::format("place {} of choice {} is outside the {} rows of choices", number, position, rows_));
  if (kind_ == Kind::Choice)
    return invalidArgument(fmt::format("choice {} at position {} is outside the {} choices of each of {} tokens",
                                       number, position, choices_, rows_));
  return outsideTable(number, position, rows_);
}

namespace {

/// result[i] = table[indices[i] / divisor], rows of row_bytes.
class CudaGather : public CudaStep {
public:
  explicit CudaGather(const CudaPrepare &from)
      : CudaStep(from), divisor_(from.step.gather().divisor()),
        fault_(from.resources, from.step.gather().table_rows(),
               divisor_ ? TokenFault::Kind::Choice : TokenFault::Kind::Token, divisor_) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Gather &gather = from.step.gather();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {gather.table_rows(), gather.row_bytes()}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {gather.rows()}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(2, {gather.rows(), gather.row_bytes()}, 1));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(gather.gpu_kernels(), 1));
    kernel_ = kernels[0];
    rows_ = gather.rows();
    pieces_ = gather.row_bytes() / std::gcd(gather.row_bytes(), kGpuVectorBytes);
    tableRows_ = gather.table_rows();
    return fault_.create();
  }

  Status execute(uint32_t) override {
    if (divisor_ > 1)
      return launch(kernel_, {address(0), address(1), address(2), fault_.address(), pieces_, tableRows_, divisor_},
                    rows_);
    return launch(kernel_, {address(0), address(1), address(2), fault_.address(), pieces_, tableRows_}, rows_);
  }

private:
  const uint64_t divisor_; ///< 0: indices are rows of the table
  TokenFault fault_;
  CudaKernel kernel_;
  uint64_t rows_ = 0, pieces_ = 0, tableRows_ = 0;
};

/// dtable[indices[i]] += dy[i], in f32 and in the order of i; dy may be bf16 or f16.
class CudaScatterAdd : public CudaStep {
public:
  explicit CudaScatterAdd(const CudaPrepare &from)
      : CudaStep(from), fault_(from.resources, from.step.scatter_add().table_rows()) {}

  Status prepare(const CudaPrepare &from) {
    const plan::ScatterAdd &scatter = from.step.scatter_add();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {scatter.rows()}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {scatter.rows(), scatter.width()}, dataTypeBytes(scatter.type())));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(2, {scatter.table_rows(), scatter.width()}));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(scatter.gpu_kernels(), 1));
    kernel_ = kernels[0];
    rows_ = scatter.rows();
    width_ = scatter.width();
    tableRows_ = scatter.table_rows();
    accumulate_ = scatter.accumulate();
    return fault_.create();
  }

  Status execute(uint32_t microstep) override {
    if (!addsNow(accumulate_, microstep))
      ZTC_RETURN_IF_ERROR(driver().check(
          driver().cuMemsetD8Async(address(2), 0, tableRows_ * width_ * sizeof(float), stream_), "cuMemsetD8Async"));
    return launch(kernel_, {address(0), address(1), address(2), fault_.address(), width_, tableRows_}, rows_);
  }

private:
  TokenFault fault_;
  CudaKernel kernel_;
  uint64_t rows_ = 0, width_ = 0, tableRows_ = 0;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareCudaGather(const CudaPrepare &from) {
  auto step = std::make_unique<CudaGather>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareCudaScatterAdd(const CudaPrepare &from) {
  auto step = std::make_unique<CudaScatterAdd>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
