// Moves between the arena and the spaces below, on the stream of moves: page-locked memory at once, a file through a
// part of that memory, which a thread of the driver reads or writes in the stream's order.
#include "runtime/Core/Sizes.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Memory/DiskStaging.h"
#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ztc {
namespace {

/// A part of the file and the staging that it passes through: what the driver's thread gets.
struct StagedTransfer {
  LowerMemory *lower;
  TransferFault *fault;
  const char *step; ///< its name, which belongs to the plan
  DiskTransfer transfer;

  static void run(void *data) {
    const auto &self = *static_cast<const StagedTransfer *>(data);
    if (!self.fault->status().isOk())
      return;
    if (Status status = self.lower->disk()->transfer({&self.transfer, 1}); !status.isOk())
      self.fault->note(status.withContext(self.step));
  }
};

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
    for (Pair &pair : pairs_)
      ZTC_RETURN_IF_ERROR(pair.transfers.empty()
                              ? copy(pair.isOut, pair.device, 0, lower_->host() + pair.offset, pair.bytes)
                              : copyStaged(pair));
    return Status::ok();
  }

private:
  struct Pair {
    size_t device; ///< its operand
    bool isOut;
    uint64_t offset, bytes;                ///< in the space
    std::vector<StagedTransfer> transfers; ///< of a file; they stay where they are, for recorded programs
  };

  /// `at`: byte of the device's operand.
  Status copy(bool isOut, size_t device, uint64_t at, std::byte *there, uint64_t bytes) {
    if (bytes == 0)
      return Status::ok();
    return isOut ? driver().check(driver().cuMemcpyDtoHAsync_v2(there, address(device) + at, bytes, stream_),
                                  "cuMemcpyDtoHAsync")
                 : driver().check(driver().cuMemcpyHtoDAsync_v2(address(device) + at, there, bytes, stream_),
                                  "cuMemcpyHtoDAsync");
  }

  Status copyStaged(Pair &pair) {
    uint64_t done = 0;
    for (StagedTransfer &staged : pair.transfers) {
      const uint64_t bytes = std::min(staged.transfer.bytes, pair.bytes - done);
      if (pair.isOut)
        ZTC_RETURN_IF_ERROR(copy(true, pair.device, done, staged.transfer.memory, bytes));
      ZTC_RETURN_IF_ERROR(
          driver().check(driver().cuLaunchHostFunc(stream_, StagedTransfer::run, &staged), "cuLaunchHostFunc"));
      if (!pair.isOut)
        ZTC_RETURN_IF_ERROR(copy(false, pair.device, done, staged.transfer.memory, bytes));
      done += bytes;
    }
    return Status::ok();
  }

  Status addPair(const CudaPrepare &from, size_t first) {
    const auto spaceOf = [&](size_t index) {
      return from.context.plan.slots(int(from.step.operands(int(index)).slot())).space();
    };
    const bool isOut = spaceOf(first) == plan::DEVICE;
    const size_t device = isOut ? first : first + 1, lower = isOut ? first + 1 : first;
    if (spaceOf(device) != plan::DEVICE || spaceOf(lower) == plan::DEVICE)
      return dataLoss(fmt::format("operands {} and {} are not one on the device and one below", first, first + 1));
    uint64_t bytes = std::min(operands_.bytes(lower), operands_.bytes(device));
    for (const auto [piece, window] : {std::pair(lower, device), std::pair(device, lower)})
      if (from.step.operands(int(piece)).piece_elements()) {
        bytes = operands_.bytes(piece);
        ZTC_RETURN_IF_ERROR(operands_.require(window, bytes));
      }
    pairs_.push_back({device, isOut, operands_.offset(lower), bytes, {}});
    if (spaceOf(lower) == plan::DISK)
      addTransfers(from, pairs_.back(), from.context.memory.slots[from.step.operands(int(lower)).slot()]);
    return Status::ok();
  }

  /// Whole blocks where the slot has room for them: what lies past the bucket's end nobody reads.
  void addTransfers(const CudaPrepare &from, Pair &pair, const SlotPlacement &slot) {
    const SlotPlacement staging = diskStaging(from.context.memory);
    uint64_t end = pair.offset + pair.bytes;
    if (roundUp(end, kDiskAlignment) <= slot.offset + slot.bytes)
      end = roundUp(end, kDiskAlignment);
    for (uint64_t at = pair.offset; at < end && pair.bytes; at += staging.bytes)
      pair.transfers.push_back({lower_,
                                &resources_.transferFault,
                                from.step.name().c_str(),
                                {pair.isOut, at, lower_->host() + staging.offset, std::min(staging.bytes, end - at)}});
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
