#include "runtime/Memory/Traffic.h"
#include "runtime/Format/PlanValidator.h"

namespace ztc {

SentBytes sentBytes(const plan::Plan &plan, const PlanShape &shape) {
  SentBytes sent;
  const uint64_t others = shape.world - 1;
  for (const plan::Program &program : plan.programs()) {
    const bool microstep = program.name() == "microstep";
    if (!microstep && program.name() != "update")
      continue;
    for (const plan::Step &step : program.steps()) {
      if (!step.has_collective())
        continue;
      const plan::Collective &collective = step.collective();
      const uint64_t times = microstep && !step.only_last_microstep() ? shape.accumulate : 1;
      if (collective.kind() == plan::Collective::ALL_REDUCE) {
        sent.allReduce += times * others * dataTypeBytes(collective.type());
        continue;
      }
      if (collective.bucket() >= static_cast<uint32_t>(plan.buckets_size()))
        continue;
      const plan::Bucket &bucket = plan.buckets(static_cast<int>(collective.bucket()));
      const uint64_t bytes = times * others * shardElements(bucket.elements(), shape.world, bucket.quantum()) *
                             dataTypeBytes(collective.type());
      (collective.kind() == plan::Collective::ALL_GATHER ? sent.allGather : sent.reduceScatter) += bytes;
    }
  }
  return sent;
}

} // namespace ztc
