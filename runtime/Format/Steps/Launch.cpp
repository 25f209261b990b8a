// A generated kernel over a parallel range.
#include "runtime/Format/HostLaunch.h"
#include "runtime/Format/KernelSignature.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepWords.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// A kernel over a shard gets shards, a kernel over the whole bucket whole slots of it.
Status checkFlatOperands(const StepCheck &check, const Launch &launch) {
  const uint64_t elements = check.plan.buckets(static_cast<int>(launch.bucket())).elements();
  for (int i = 0; i < check.step.operands_size(); ++i) {
    const SizeForm &size = check.slotOf(i).size();
    const Operand &operand = check.step.operands(i);
    const bool isBucket = size.kind() == SizeForm::SHARD || size.kind() == SizeForm::FULL;
    const bool isPiece = operand.piece_elements() == launch.piece_elements() && operand.piece() == launch.piece();
    if (isBucket && size.elements() == elements ? !isPiece : operand.piece_elements() != 0)
      return dataLoss(fmt::format("operand {} is not the piece of the bucket that is worked on", i));
    if (size.elements() != elements || (size.kind() != SizeForm::SHARD && size.kind() != SizeForm::FULL))
      continue;
    const bool isShard = size.kind() == SizeForm::SHARD || check.step.operands(i).own_shard();
    if (isShard != (launch.flat_range() == Launch::OWN_SHARD))
      return dataLoss(fmt::format("operand {}: {} bucket in a launch over {}", i,
                                  isShard ? "a shard of the" : "a whole", isShard ? "all of it" : "the rank's shard"));
  }
  return Status::ok();
}

/// A piece is one of a bucket, in whole blocks; windows hold as many elements.
Status checkPiece(const StepCheck &check, const Launch &launch) {
  const uint64_t elements = launch.piece_elements();
  if (elements == 0 && launch.piece() == 0)
    return Status::ok();
  if (!launch.flat() || elements == 0 || elements > (uint64_t(1) << 40) || launch.extent() != 0 ||
      elements % launch.flat_block() != 0)
    return dataLoss(fmt::format("piece {} of {} elements of a launch", launch.piece(), elements));
  return Status::ok();
}

class LaunchDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Launch &launch = check.step.launch();
    ZTC_RETURN_IF_ERROR(check.kernel(launch.kernel()));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(launch.accumulate()));
    if (launch.accumulate() != OVERWRITE)
      ZTC_RETURN_IF_ERROR(check.kernel(launch.kernel_add()));
    if (computesOnHost(check.step) && launch.accumulate() != OVERWRITE)
      return dataLoss("a launch on the host's cores that adds to its results");
    constexpr uint64_t kLargest = uint64_t(1) << 62;
    if (launch.flat()) {
      ZTC_RETURN_IF_ERROR(check.bucket(launch.bucket()));
      if (launch.flat_block() == 0 || launch.flat_block() > kLargest)
        return dataLoss(fmt::format("a flat launch with blocks of {} elements", launch.flat_block()));
      if (!Launch::FlatRange_IsValid(launch.flat_range()))
        return dataLoss(fmt::format("unknown range {}", int(launch.flat_range())));
      ZTC_RETURN_IF_ERROR(checkFlatOperands(check, launch));
    }
    ZTC_RETURN_IF_ERROR(checkPiece(check, launch));
    if (launch.read_bytes_size() > check.step.operands_size())
      return dataLoss(fmt::format("{} operands, and bytes that are read of {}", check.step.operands_size(),
                                  launch.read_bytes_size()));
    if (launch.extent() > kLargest || launch.grain() > kLargest)
      return dataLoss(fmt::format("range of {} units in grains of {}", launch.extent(), launch.grain()));
    ZTC_RETURN_IF_ERROR(checkKernelSignature(check.plan, check.step, launch.kernel()));
    return launch.accumulate() == OVERWRITE ? Status::ok()
                                            : checkKernelSignature(check.plan, check.step, launch.kernel_add());
  }

  std::string text(const Plan &plan, const Step &step) const override {
    const Launch &launch = step.launch();
    const Kernel *kernel = kernelOf(plan, launch);
    std::string extent = fmt::format("{} units", launch.extent());
    if (launch.flat())
      extent = (launch.flat_range() == Launch::WHOLE ? "bucket " : "own shard of bucket ") +
               bucketText(plan, launch.bucket());
    if (launch.piece_elements())
      extent += fmt::format(", piece {} of {} elements", launch.piece(), launch.piece_elements());
    return fmt::format("launch {}, {}{}{}{}", kernel ? kernel->name() : "?", extent,
                       accumulateText(launch.accumulate()), lastOnlyText(step),
                       computesOnHost(step) ? ", on the host's cores" : "");
  }

  std::string callText(const Plan &plan, const Step &step) const override {
    const Kernel *kernel = kernelOf(plan, step.launch());
    return kernel ? fmt::format("{} ({})", kernel->name(), kernel->form()) : "?";
  }

  const char *family(const Step &) const override { return "generated kernels"; }

  /// A group's workspace is memory like any other.
  uint64_t bytes(const StepSizes &sizes) const override {
    uint64_t bytes = 0;
    for (int i = 0; i < sizes.step.operands_size(); ++i) {
      const uint64_t all = sizes.operandBytes(i);
      const Launch &launch = sizes.step.launch();
      const int64_t read = i < launch.read_bytes_size() ? launch.read_bytes(i) : 0;
      bytes += read > 0 ? std::min(all, uint64_t(read)) : all;
    }
    return bytes;
  }
  StepWork work(const Plan &, const Step &step) const override {
    return computesOnHost(step) ? StepWork::HostKernel : StepWork::Kernel;
  }

private:
  static const Kernel *kernelOf(const Plan &plan, const Launch &launch) {
    return launch.kernel() < uint32_t(plan.kernels_size()) ? &plan.kernels(int(launch.kernel())) : nullptr;
  }
};

} // namespace

const StepDefinition &defineLaunch() {
  static const LaunchDefinition definition;
  return definition;
}

} // namespace ztc
