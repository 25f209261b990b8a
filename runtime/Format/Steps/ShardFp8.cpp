// Ranges of buckets in fp8, of which a rank has a shard: their absolute maxima, or their codes.
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// Numbers of a range: operand, first element, end.
constexpr int kRangeNumbers = 3;
/// Operands before the shards: maxima, workspace.
constexpr int kShards = 2;

bool findsMaxima(const ShardFp8 &call) {
  return call.to() == F32;
}

class ShardFp8Definition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const ShardFp8 &call = check.step.shard_fp8();
    ZTC_RETURN_IF_ERROR(check.real(call.from()));
    if (!findsMaxima(call) && call.to() != E4M3)
      return dataLoss(fmt::format("codes of type {} of a shard", int(call.to())));
    const int numbers = call.ranges_size();
    if (!numbers || numbers % kRangeNumbers)
      return dataLoss(fmt::format("{} numbers of ranges, {} of each", numbers, kRangeNumbers));
    const int ranges = numbers / kRangeNumbers, operands = check.step.operands_size();
    if (findsMaxima(call) ? operands <= kShards : operands != kShards + 2 + ranges)
      return dataLoss(fmt::format("{} operands, of {} ranges", operands, ranges));
    const int shards = findsMaxima(call) ? operands - kShards : 1;
    ZTC_RETURN_IF_ERROR(check.holds(0, "maxima", CheckedBytes(call.first() + uint64_t(ranges)) * sizeof(float)));
    ZTC_RETURN_IF_ERROR(check.holds(1, "workspace", findsMaxima(call) ? kFp8Partials * sizeof(float) : kFp8Tile));
    for (int shard = 0; shard < shards; ++shard) {
      const SizeForm &size = check.slotOf(kShards + shard).size();
      const Operand &operand = check.step.operands(kShards + shard);
      if (size.kind() != SizeForm::SHARD || operand.own_shard() || operand.offset() || operand.bytes() ||
          size.element_bytes() != dataTypeBytes(call.from()))
        return dataLoss(fmt::format("operand {} is not a rank's shard of a bucket", kShards + shard));
    }
    for (int i = 0; i < numbers; i += kRangeNumbers) {
      const uint64_t operand = call.ranges(i), begin = call.ranges(i + 1), end = call.ranges(i + 2);
      if (operand >= uint64_t(shards) || begin >= end || begin % kFp8Tile || end % kFp8Tile ||
          end > check.slotOf(kShards + int(operand)).size().elements())
        return dataLoss(fmt::format("the range {} to {} of operand {}", begin, end, operand));
    }
    if (findsMaxima(call))
      return check.gpuServices(call, {"gpu_fp8_maxima" + kernelTypeSuffix(call.from()), "gpu_fp8_maxima"});
    const SizeForm &codes = check.slotOf(kShards + 1).size(), &size = check.slotOf(kShards).size();
    if (!check.step.operands(kShards + 1).own_shard() || codes.element_bytes() != 1 ||
        codes.elements() != size.elements() || codes.quantum() != size.quantum())
      return dataLoss("the codes are not the rank's shard of the bucket");
    for (int scale = kShards + 2; scale < operands; ++scale)
      ZTC_RETURN_IF_ERROR(check.holds(scale, "scale", 2 * sizeof(float)));
    return check.gpuServices(call, {"gpu_quantize_e4m3_rows" + kernelTypeSuffix(call.from())});
  }

  std::string text(const Plan &, const Step &step) const override {
    const ShardFp8 &call = step.shard_fp8();
    const int ranges = call.ranges_size() / kRangeNumbers;
    if (findsMaxima(call))
      return fmt::format("amax of {} ranges of shards{}{}", ranges, typeText(call.from()), lastOnlyText(step));
    return fmt::format("quantize shard{} to {}, {} scales{}", typeText(call.from()), dataTypeName(call.to()), ranges,
                       lastOnlyText(step));
  }

  const char *family(const Step &) const override { return "quantize"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernels",
                        findsMaxima(step.shard_fp8()) ? "the largest magnitudes of what this rank has of weights"
                                                      : "the codes that ranks gather",
                        gpuKernelsOf(step.shard_fp8()));
  }
};

} // namespace

const StepDefinition &defineShardFp8() {
  static const ShardFp8Definition definition;
  return definition;
}

} // namespace ztc
