// Moves between the arena and the spaces below, on the stream of moves.
#include "runtime/Core/Sizes.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/PlanValidator.h"
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace ztc {
namespace {

class HostMove : public HostStep, public StreamTask {
public:
  explicit HostMove(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    ZTC_RETURN_IF_ERROR(resolve(from, {}));
    name_ = from.step.name().c_str();
    board_ = from.context.board;
    lower_ = from.context.lower;
    if (!lower_)
      return failedPrecondition("the plan keeps slots outside the arena: there is no memory for them");
    if (operandCount() % 2 != 0)
      return dataLoss(fmt::format("{} operands, pairs are needed", operandCount()));
    for (size_t i = 0; i < operandCount(); i += 2)
      ZTC_RETURN_IF_ERROR(addPair(from, i));
    transfers_.resize(pairs_.size());
    resources_.moves.start();
    return Status::ok();
  }

  Status execute(uint32_t) override { return resources_.moves.enqueue(*this); }
  uint64_t queuedNanoseconds() const override { return nanoseconds_.load(std::memory_order_relaxed); }
  const char *name() const override { return name_; }
  Communicator *communicator() const override { return nullptr; }
  ProgressBoard *board() const override { return nullptr; } // it is not a collective

  Status run() override {
    const uint64_t before = traceClock();
    Status status = move();
    const uint64_t spent = traceClock() - before;
    nanoseconds_.fetch_add(spent, std::memory_order_relaxed);
    lower_->counters().nanoseconds.fetch_add(spent, std::memory_order_relaxed);
    if (board_)
      board_->addWork();
    return status.withContext(name_);
  }

private:
  struct Pair {
    size_t device; ///< its operand
    plan::Space space;
    bool isOut;
    uint64_t offset, bytes; ///< in the lower space
  };

  Status addPair(const HostPrepare &from, size_t first) {
    const auto spaceOf = [&](size_t index) {
      return from.context.plan.slots(int(from.step.operands(int(index)).slot())).space();
    };
    const bool isOut = spaceOf(first) == plan::DEVICE;
    const size_t device = isOut ? first : first + 1, lower = isOut ? first + 1 : first;
    if (spaceOf(device) != plan::DEVICE || spaceOf(lower) == plan::DEVICE)
      return dataLoss(fmt::format("operands {} and {} are not one on the device and one below", first, first + 1));
    uint64_t bytes = std::min(operandBytes(lower), operandBytes(device));
    for (const auto [piece, window] : {std::pair(lower, device), std::pair(device, lower)})
      if (from.step.operands(int(piece)).piece_elements()) {
        bytes = operandBytes(piece);
        ZTC_RETURN_IF_ERROR(require(from, window, bytes));
      }
    if (spaceOf(lower) == plan::DISK && endsSlot(from, lower)) {
      // Whole blocks where there is room for them: what lies between the bucket's end and that of its last block nobody
      // reads.
      const SlotPlacement &slot = from.context.memory.slots[from.step.operands(int(lower)).slot()];
      const uint64_t blocks = roundUp(bytes, kDiskAlignment);
      if (blocks <= operandBytes(device) && operandOffset(lower) + blocks <= slot.offset + slot.bytes)
        bytes = blocks;
    }
    pairs_.push_back({device, spaceOf(lower), isOut, operandOffset(lower), bytes});
    return Status::ok();
  }

  /// Whether nothing of the bucket lies past this operand: it is shorter than a piece.
  bool endsSlot(const HostPrepare &from, size_t index) const {
    const plan::Operand &operand = from.step.operands(int(index));
    const plan::SizeForm &size = from.context.plan.slots(int(operand.slot())).size();
    return operand.piece_elements() && operandBytes(index) < operand.piece_elements() /
                                                                 std::max<uint64_t>(1, size.block_elements()) *
                                                                 size.element_bytes();
  }

  Status move() {
    LowerMemory::Counters &counters = lower_->counters();
    size_t transfers = 0;
    for (const Pair &pair : pairs_) {
      std::byte *const here = pointer<std::byte>(pair.device);
      const bool isDisk = pair.space == plan::DISK;
      std::atomic<uint64_t> &counter = isDisk ? (pair.isOut ? counters.diskOut : counters.diskIn)
                                              : (pair.isOut ? counters.hostOut : counters.hostIn);
      counter.fetch_add(pair.bytes, std::memory_order_relaxed);
      if (isDisk) {
        transfers_[transfers++] = {pair.isOut, pair.offset, here, pair.bytes};
      } else if (pair.isOut) {
        std::memcpy(lower_->host() + pair.offset, here, pair.bytes);
      } else {
        std::memcpy(here, lower_->host() + pair.offset, pair.bytes);
      }
    }
    return transfers ? lower_->disk()->transfer({transfers_.data(), transfers}) : Status::ok();
  }

  const char *name_ = ""; ///< belongs to the plan
  ProgressBoard *board_ = nullptr;
  LowerMemory *lower_ = nullptr;
  std::vector<Pair> pairs_;
  std::vector<DiskTransfer> transfers_; ///< room for those of one execution
  std::atomic<uint64_t> nanoseconds_{0};
};

} // namespace

PreparedStep prepareHostMove(const HostPrepare &from) {
  auto step = std::make_unique<HostMove>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
