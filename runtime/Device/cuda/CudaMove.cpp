// Moves between the arena and page-locked memory, on the stream of moves.
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/cuda/CudaStep.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaMove : public CudaStep {
public:
  explicit CudaMove(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {}));
    lower_ = from.context.lower;
    if (!lower_ || operands_.count() % 2 != 0)
      return failedPrecondition("the plan keeps slots outside the arena: there is no memory for them");
    for (size_t i = 0; i < operands_.count(); i += 2)
      ZTC_RETURN_IF_ERROR(addPair(from, i));
    resources_.hasMoves = true;
    return Status::ok();
  }

  Status execute(uint32_t) override {
    for (const Pair &pair : pairs_) {
      std::byte *const there = lower_->host() + pair.offset;
      if (pair.bytes == 0)
        continue;
      ZTC_RETURN_IF_ERROR(
          pair.isOut ? driver().check(driver().cuMemcpyDtoHAsync_v2(there, address(pair.device), pair.bytes, stream_),
                                      "cuMemcpyDtoHAsync")
                     : driver().check(driver().cuMemcpyHtoDAsync_v2(address(pair.device), there, pair.bytes, stream_),
                                      "cuMemcpyHtoDAsync"));
    }
    return Status::ok();
  }

private:
  struct Pair {
    size_t device; ///< its operand
    bool isOut;
    uint64_t offset, bytes; ///< in space `host`
  };

  Status addPair(const CudaPrepare &from, size_t first) {
    const auto spaceOf = [&](size_t index) {
      return from.context.plan.slots(int(from.step.operands(int(index)).slot())).space();
    };
    const bool isOut = spaceOf(first) == plan::DEVICE;
    const size_t device = isOut ? first : first + 1, lower = isOut ? first + 1 : first;
    if (spaceOf(lower) == plan::DISK)
      return failedPrecondition("the plan keeps slots on a disk, which only CPU ranks do so far: compile it with "
                                "--host-mem for GPUs");
    if (spaceOf(device) != plan::DEVICE || spaceOf(lower) != plan::HOST)
      return dataLoss(fmt::format("operands {} and {} are not one on the device and one below", first, first + 1));
    uint64_t bytes = operands_.bytes(lower);
    if (from.step.operands(int(lower)).piece_elements())
      ZTC_RETURN_IF_ERROR(operands_.require(device, bytes));
    else
      bytes = std::min(bytes, operands_.bytes(device));
    pairs_.push_back({device, isOut, operands_.offset(lower), bytes});
    return Status::ok();
  }

  LowerMemory *lower_ = nullptr;
  std::vector<Pair> pairs_;
};

} // namespace

PreparedStep prepareCudaMove(const CudaPrepare &from) {
  auto step = std::make_unique<CudaMove>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
