// Bytes between the device and a lower space.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// The operands of a pair: `lower` is in a space below the device.
struct Pair {
  int lower, device;
};

class MoveDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    if (check.step.operands_size() == 0 || check.step.operands_size() % 2 != 0)
      return dataLoss(fmt::format("{} operands, pairs are needed", check.step.operands_size()));
    if (check.step.stream() != 2)
      return dataLoss("a move that is not on the stream of moves");
    for (int i = 0; i < check.step.operands_size(); i += 2) {
      if (check.step.operands(i).access() != Operand::READ || check.step.operands(i + 1).access() != Operand::WRITE)
        return dataLoss(fmt::format("operands {} and {} are not what is read and what is written", i, i + 1));
      const bool isOut = check.slotOf(i).space() == DEVICE;
      if (isOut == (check.slotOf(i + 1).space() == DEVICE))
        return dataLoss(fmt::format("operands {} and {} are not one on the device and one below", i, i + 1));
      const Pair pair = isOut ? Pair{i + 1, i} : Pair{i, i + 1};
      ZTC_RETURN_IF_ERROR(checkPair(check, pair));
    }
    return Status::ok();
  }

  std::string text(const Plan &plan, const Step &step) const override {
    const bool isOut = isOutward(plan, step);
    return fmt::format("move {} slots {} {}", step.operands_size() / 2, isOut ? "out to" : "in from",
                       spaceOf(plan, step));
  }
  std::string callText(const Plan &plan, const Step &step) const override {
    return fmt::format("move {} {}", isOutward(plan, step) ? "out to" : "in from", spaceOf(plan, step));
  }
  const char *family(const Step &) const override { return "moves between spaces"; }

  /// What crosses the link, once: of a pair the smaller one, a piece of which the other is the window.
  uint64_t bytes(const StepSizes &sizes) const override {
    const auto bytesOf = [&](int operand) {
      Step one;
      *one.add_operands() = sizes.step.operands(operand);
      return StepSizes{sizes.plan, one, sizes.slotBytes, sizes.world, sizes.microSteps, sizes.onGpu}.operandBytes(
          /*withScratch=*/true);
    };
    uint64_t bytes = 0;
    for (int i = 0; i + 1 < sizes.step.operands_size(); i += 2)
      bytes += std::min(bytesOf(i), bytesOf(i + 1));
    return bytes;
  }
  StepWork work(const Plan &plan, const Step &step) const override {
    return spaceNumber(plan, step) == DISK ? StepWork::DiskLink : StepWork::HostLink;
  }
  std::vector<CallExecution> executions(const Plan &, const Step &, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "memory, files", "CUDA driver", "no arithmetic");
  }

private:
  /// A piece of a bucket, on either side, and the window on it; or a whole slot and one that holds it, of the same
  /// form.
  static Status checkPair(const StepCheck &check, Pair pair) {
    const Operand &lower = check.step.operands(pair.lower), &device = check.step.operands(pair.device);
    const SizeForm &from = check.slotOf(pair.lower).size(), &to = check.slotOf(pair.device).size();
    const bool isLowerPiece = lower.piece_elements() != 0, isDevicePiece = device.piece_elements() != 0;
    if (lower.offset() || lower.bytes() || device.offset() || device.bytes() || (isLowerPiece && isDevicePiece) ||
        lower.own_shard())
      return dataLoss(fmt::format("operands {} and {} are parts that no move takes", pair.lower, pair.device));
    if (!isLowerPiece && !isDevicePiece) {
      const bool alike = from.elements() == to.elements() && from.element_bytes() == to.element_bytes() &&
                         from.quantum() == to.quantum() && from.block_elements() == to.block_elements() &&
                         from.kind() == (device.own_shard() ? SizeForm::SHARD : to.kind());
      if (!alike)
        return dataLoss(fmt::format("operands {} and {} differ in size", pair.lower, pair.device));
      return Status::ok();
    }
    // The piece has its full length at one rank, unless the bucket ends there.
    const int window = isLowerPiece ? pair.device : pair.lower, piece = isLowerPiece ? pair.lower : pair.device;
    const SizeForm &size = isLowerPiece ? to : from;
    if ((isLowerPiece && device.own_shard()) || size.kind() != SizeForm::CONSTANT || size.has_gpu_elements())
      return dataLoss(fmt::format("operand {} is not a window of fixed size", window));
    return check.holds(window, "window", check.bytes(piece));
  }

  static bool isOutward(const Plan &plan, const Step &step) {
    return step.operands_size() && step.operands(0).slot() < uint32_t(plan.slots_size()) &&
           plan.slots(int(step.operands(0).slot())).space() == DEVICE;
  }
  static Space spaceNumber(const Plan &plan, const Step &step) {
    for (const Operand &operand : step.operands())
      if (operand.slot() < uint32_t(plan.slots_size()) && plan.slots(int(operand.slot())).space() != DEVICE)
        return plan.slots(int(operand.slot())).space();
    return DEVICE;
  }
  static const char *spaceOf(const Plan &plan, const Step &step) {
    return spaceNumber(plan, step) == DISK ? "disk" : "host memory";
  }
};

} // namespace

const StepDefinition &defineMove() {
  static const MoveDefinition definition;
  return definition;
}

} // namespace ztc
