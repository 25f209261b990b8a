#include "runtime/Memory/Traffic.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/StepBytes.h"

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
      const uint64_t times = microstep ? runsPerStep(step, shape.accumulate) : 1;
      if (collective.kind() == plan::Collective::ALL_REDUCE) {
        sent.allReduce += times * others * dataTypeBytes(collective.type());
        continue;
      }
      if (collective.kind() == plan::Collective::ALL_REDUCE_MAX) {
        sent.allReduce += times * others * (step.operands_size() ? step.operands(0).bytes() : 0);
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

MoveTraffic moveTraffic(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape) {
  MoveTraffic traffic;
  const auto isBelow = [&](const plan::Operand &operand) {
    return operand.slot() < uint32_t(plan.slots_size()) && plan.slots(int(operand.slot())).space() != plan::DEVICE;
  };
  for (const plan::Program &program : plan.programs()) {
    const bool isMicrostep = program.name() == "microstep";
    if (!isMicrostep && program.name() != "update")
      continue;
    for (const plan::Step &step : program.steps()) {
      if (!step.has_move())
        continue;
      const uint64_t times = isMicrostep ? runsPerStep(step, shape.accumulate) : 1;
      for (int i = 0; i + 1 < step.operands_size(); i += 2) {
        plan::Step one = step; // this pair alone
        one.clear_operands();
        *one.add_operands() = step.operands(i);
        *one.add_operands() = step.operands(i + 1);
        const uint64_t bytes = times * stepBytes(plan, memory, shape, one);
        const bool isOut = isBelow(step.operands(i + 1));
        const bool isDisk = plan.slots(int(step.operands(isOut ? i + 1 : i).slot())).space() == plan::DISK;
        (isDisk ? (isOut ? traffic.diskOut : traffic.diskIn) : (isOut ? traffic.hostOut : traffic.hostIn)) += bytes;
      }
    }
  }
  return traffic;
}

} // namespace ztc
