#include "compiler/Report/MuonWork.h"
#include "compiler/Analysis/CostModel.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/MatrixOwners.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Shards.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

namespace ztc::report {

std::string describeMuon(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape) {
  const MachineRates rates = ratesOf(shape);
  std::set<uint32_t> parameters, buckets;
  double seconds = 0, flops = 0;
  forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool) {
    if (!step.owned_parameter() || step.unless_owner())
      return;
    parameters.insert(step.owned_parameter() - 1);
    const double share = times * busiestShare(plan, step, shape.world);
    flops += share * double(step.flops());
    seconds += share * stepSeconds(plan, memory, shape, step, rates);
  });
  if (parameters.empty())
    return {};
  for (const uint32_t parameter : parameters)
    buckets.insert(plan.parameters(int(parameter)).bucket());
  // Two collectives of each bucket's directions, which are bf16 whatever the parameters are.
  uint64_t sent = 0;
  for (const uint32_t index : buckets) {
    const plan::Bucket &bucket = plan.buckets(int(index));
    sent += 2 * (shape.world - 1) * shardElements(bucket.elements(), shape.world, bucket.quantum()) *
            dataTypeBytes(plan::BF16);
  }
  return llvm::formatv(
             "muon makes {0} matrices of {1} buckets orthogonal, each on one rank: the busiest computes {2:F1} "
             "GFLOP a step, about {3:F3} s, and {4} of directions are sent",
             parameters.size(), buckets.size(), flops / 1e9, seconds, formatSize(sent))
      .str();
}

} // namespace ztc::report
