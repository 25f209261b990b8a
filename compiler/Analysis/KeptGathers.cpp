#include "compiler/Analysis/KeptGathers.h"
#include "compiler/Analysis/MostThatFit.h"
#include "compiler/Analysis/ProgramEdits.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

namespace ztc {
namespace {

/// Operand of a step that makes the codes of a shard: these, after the shard; scales follow.
constexpr int kCodesOfShard = 3;

/// The steps of a gather that runs beside the computation: record, wait, the collective, record, ..., wait.
struct Gather {
  int collective = 0; ///< with the record and the wait that begin it right before, the record of its end right after
  int done = 0;       ///< the computation's wait
  uint32_t bucket = 0;
  uint32_t shard = 0, full = 0; ///< slots
  bool isOfCodes = false;       ///< which the step right before makes, at the rank's place in `full`

  llvm::SmallVector<int, 6> steps() const {
    llvm::SmallVector<int, 6> all{collective - 2, collective - 1, collective, collective + 1, done};
    if (isOfCodes)
      all.push_back(collective - 3);
    return all;
  }
};

/// The gathers of a program from shards on the device that persist, in order.
llvm::SmallVector<Gather> gathersOf(const plan::Plan &plan, const plan::Program &program) {
  llvm::DenseMap<uint32_t, int> waits; // of the computation, by event
  for (int i = 0; i < program.steps_size(); ++i)
    if (const plan::Step &step = program.steps(i); step.has_wait() && step.stream() == 0)
      waits[step.wait().event()] = i;
  llvm::SmallVector<Gather> gathers;
  for (int i = 2; i + 1 < program.steps_size(); ++i) {
    const plan::Step &step = program.steps(i);
    if (!step.has_collective() || step.collective().kind() != plan::Collective::ALL_GATHER || step.stream() != 1 ||
        step.operands_size() != 2 || step.collective().bucket() >= uint32_t(plan.buckets_size()))
      continue;
    const plan::Step &ready = program.steps(i - 2), &begin = program.steps(i - 1), &end = program.steps(i + 1);
    if (!ready.has_record() || ready.stream() != 0 || !begin.has_wait() || begin.stream() != 1 ||
        begin.wait().event() != ready.record().event() || !end.has_record() || end.stream() != 1)
      continue;
    const auto done = waits.find(end.record().event());
    const plan::Operand &shard = step.operands(0), &full = step.operands(1);
    const plan::Bucket &bucket = plan.buckets(int(step.collective().bucket()));
    const plan::Step *codes = i >= 3 && program.steps(i - 3).has_shard_fp8() ? &program.steps(i - 3) : nullptr;
    const bool isOfCodes = codes && shard.own_shard() && shard.slot() == full.slot() &&
                           codes->operands_size() > kCodesOfShard &&
                           codes->operands(kCodesOfShard).slot() == full.slot();
    const uint32_t source = isOfCodes ? codes->operands(kCodesOfShard - 1).slot() : shard.slot();
    if (done == waits.end() || (shard.own_shard() && !isOfCodes) || source != bucket.parameter_slot() ||
        plan.slots(int(source)).space() != plan::DEVICE || plan.slots(int(full.slot())).persistent())
      continue;
    gathers.push_back({i, done->second, step.collective().bucket(), source, full.slot(), isOfCodes});
  }
  return gathers;
}

/// Slots that a program touches.
llvm::DenseSet<uint32_t> slotsOf(const plan::Program &program) {
  llvm::DenseSet<uint32_t> slots;
  for (const plan::Step &step : program.steps())
    for (const plan::Operand &operand : step.operands())
      slots.insert(operand.slot());
  return slots;
}

/// The gathers of `microstep` whose slots are written by them alone, and used nowhere else.
llvm::SmallVector<Gather> ownGathers(plan::Plan &plan) {
  const plan::Program *microstep = programOf(plan, "microstep");
  if (plan.zero() != 3 || !microstep || !programOf(plan, "update"))
    return {};
  llvm::SmallVector<Gather> gathers = gathersOf(plan, *microstep);
  llvm::DenseMap<uint32_t, unsigned> writers;
  for (const plan::Step &step : microstep->steps())
    if (!step.has_wait())
      for (const plan::Operand &operand : step.operands())
        writers[operand.slot()] += operand.access() != plan::Operand::READ;
  llvm::DenseSet<uint32_t> others;
  for (const plan::Program &program : plan.programs())
    if (&program != microstep)
      for (uint32_t slot : slotsOf(program))
        if (!plan.slots(int(slot)).carried())
          others.insert(slot);
  llvm::erase_if(gathers, [&](const Gather &gather) {
    return writers.lookup(gather.full) != (gather.isOfCodes ? 2u : 1u) || others.contains(gather.full) ||
           plan.slots(int(gather.full)).size().kind() != plan::SizeForm::FULL;
  });
  return gathers;
}

bool computes(const plan::Step &step) {
  return step.stream() == 0 && !step.has_record() && !step.has_wait();
}

plan::Step stepLike(const plan::Step &gather, const std::string &name, uint32_t stream) {
  plan::Step step;
  step.set_name(name);
  step.set_layer(gather.layer());
  step.set_stream(stream);
  step.set_reason(gather.reason());
  return step;
}

/// What `update` gets to gather a bucket: the steps right after its own update, and the wait at the end.
struct EarlyGather {
  int position = 0; ///< they stand before this step
  llvm::SmallVector<plan::Step, 4> start;
  plan::Step done;
};

EarlyGather earlyGather(const plan::Step &gather, const plan::Program &update, uint32_t &nextEvent) {
  EarlyGather early;
  const uint32_t shard = gather.operands(0).slot();
  // After the last step that touches its parameters, and not in front of the sum of the norm, for which every update
  // waits: what is frozen comes right after that.
  for (int i = 0; i < update.steps_size(); ++i) {
    const plan::Step &step = update.steps(i);
    const bool touches = llvm::any_of(step.operands(), [&](const plan::Operand &o) { return o.slot() == shard; });
    const bool ends = step.has_record() && i && update.steps(i - 1).has_collective() &&
                      update.steps(i - 1).collective().kind() == plan::Collective::ALL_REDUCE;
    if (touches || ends)
      early.position = i + 1;
  }
  const std::string name = gather.name() + " for the next step";
  const uint32_t ready = nextEvent++, finished = nextEvent++;
  plan::Step record = stepLike(gather, name + " ready", 0), wait = stepLike(gather, name + " begin", 1);
  record.mutable_record()->set_event(ready);
  wait.mutable_wait()->set_event(ready);
  plan::Step collective = stepLike(gather, name, 1), end = stepLike(gather, name + " end", 1);
  *collective.mutable_operands() = gather.operands();
  *collective.mutable_collective() = gather.collective();
  end.mutable_record()->set_event(finished);
  early.start = {std::move(record), std::move(wait), std::move(collective), std::move(end)};
  early.done = stepLike(gather, name + " done", 0);
  *early.done.mutable_operands() = gather.operands();
  early.done.mutable_wait()->set_event(finished);
  return early;
}

/// The collectives of a program, numbered in the order of the text: that in which all ranks launch them.
void numberCollectives(plan::Program &program) {
  uint64_t order = 0;
  for (plan::Step &step : *program.mutable_steps())
    if (step.has_collective())
      step.mutable_collective()->set_launch_order(order++);
}

/// Gathers of a bucket in `microstep`, the first one first.
using BucketGathers = std::map<uint32_t, llvm::SmallVector<Gather, 2>>;

BucketGathers byBucket(llvm::ArrayRef<Gather> gathers) {
  BucketGathers buckets;
  for (const Gather &gather : gathers)
    buckets[gather.bucket].push_back(gather);
  return buckets;
}

/// Leaves each of these buckets one gather in `microstep`, for all micro-steps.
void keep(plan::Plan &plan, const BucketGathers &all, const std::set<uint32_t> &buckets) {
  plan::Program &microstep = *programOf(plan, "microstep");
  llvm::DenseMap<uint32_t, uint32_t> instead; // slots
  llvm::DenseSet<int> dropped;
  for (uint32_t bucket : buckets) {
    const auto &gathers = all.at(bucket);
    const Gather &first = gathers.front();
    plan::Slot &slot = *plan.mutable_slots(int(first.full));
    slot.set_kept(true);
    slot.set_reason(plan.buckets(int(bucket)).name() + " of all ranks, kept over micro-steps and to the backward");
    for (int step : first.steps())
      microstep.mutable_steps(step)->set_only_first_microstep(true);
    if (first.isOfCodes)
      for (const plan::Operand &scale :
           llvm::drop_begin(microstep.steps(first.collective - 3).operands(), kCodesOfShard + 1)) {
        plan.mutable_slots(int(scale.slot()))->set_kept(true);
        plan.mutable_slots(int(scale.slot()))->set_reason("of the fp8 codes of a weight, kept with these");
      }
    for (const Gather &again : llvm::ArrayRef(gathers).drop_front()) {
      if (again.isOfCodes)
        for (auto [scale, kept] :
             llvm::zip_equal(llvm::drop_begin(microstep.steps(again.collective - 3).operands(), kCodesOfShard + 1),
                             llvm::drop_begin(microstep.steps(first.collective - 3).operands(), kCodesOfShard + 1)))
          instead[scale.slot()] = kept.slot();
      instead[again.full] = first.full;
      for (int step : again.steps())
        dropped.insert(step);
    }
  }
  dropSteps(microstep, dropped, instead);
  numberCollectives(microstep);
}

uint64_t fullBytes(const plan::Plan &plan, uint32_t slot, const PlanShape &shape) {
  return sizeFormBytes(plan.slots(int(slot)).size(), shape.world, shape.accumulate > 1, shape.threads).value_or(0);
}

} // namespace

void gatherEarly(plan::Plan &plan) {
  const llvm::SmallVector<Gather> gathers = ownGathers(plan);
  if (gathers.empty())
    return;
  plan::Program &microstep = *programOf(plan, "microstep"), &update = *programOf(plan, "update");
  const auto first = std::find_if(microstep.steps().begin(), microstep.steps().end(), computes);
  const int begin = int(first - microstep.steps().begin());
  uint32_t nextEvent = 0;
  for (const plan::Program &program : plan.programs())
    for (const plan::Step &step : program.steps())
      if (step.has_record())
        nextEvent = std::max(nextEvent, step.record().event() + 1);
  std::multimap<int, EarlyGather> early; // by position; of one place in order
  for (const Gather &gather : gathers) {
    if (gather.collective >= begin)
      break;
    // The maxima that codes are made of are found when the step begins.
    if (plan.slots(int(gather.full)).carried() || gather.isOfCodes)
      continue;
    plan::Slot &slot = *plan.mutable_slots(int(gather.full));
    slot.set_carried(true);
    slot.set_reason(plan.buckets(int(gather.bucket)).name() + " of all ranks, gathered by the update before");
    EarlyGather made = earlyGather(microstep.steps(gather.collective), update, nextEvent);
    early.emplace(made.position, std::move(made));
    for (int step : gather.steps())
      microstep.mutable_steps(step)->set_unless_carried(true);
  }
  if (early.empty())
    return;
  google::protobuf::RepeatedPtrField<plan::Step> steps;
  auto next = early.begin();
  for (int i = 0; i <= update.steps_size(); ++i) {
    for (; next != early.end() && next->first == i; ++next)
      for (plan::Step &step : next->second.start)
        steps.Add()->Swap(&step);
    if (i < update.steps_size())
      steps.Add()->Swap(update.mutable_steps(i));
  }
  for (auto &[position, gather] : early)
    steps.Add()->Swap(&gather.done);
  update.mutable_steps()->Swap(&steps);
  numberCollectives(update);
}

Status keepGathers(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes) {
  const BucketGathers buckets = byBucket(ownGathers(plan));
  if (buckets.empty())
    return Status::ok();
  if (!budgetBytes) {
    std::set<uint32_t> all;
    for (const auto &[bucket, gathers] : buckets)
      all.insert(bucket);
    return keep(plan, buckets, all), Status::ok();
  }
  // Of one bucket all gathers but one are saved: of equals those that are used last in the forward, whose parameters
  // wait the least for the backward.
  llvm::SmallVector<std::pair<uint64_t, uint32_t>> order; // gathers saved, bucket
  for (const auto &[bucket, gathers] : buckets) {
    uint64_t saved = 0;
    for (const PlanShape &shape : shapes)
      if (shape.world > 1)
        saved = std::max<uint64_t>(saved, uint64_t(gathers.size()) * shape.accumulate - 1);
    if (saved)
      order.push_back({saved, bucket});
  }
  llvm::sort(order, std::greater<>());
  const auto firstOf = [&](size_t count) {
    std::set<uint32_t> chosen;
    for (const auto &[saved, bucket] : llvm::ArrayRef(order).take_front(count))
      chosen.insert(bucket);
    return chosen;
  };
  ZTC_ASSIGN_OR_RETURN(const size_t fitting,
                       mostThatFit(plan, order.size(), shapes, *budgetBytes,
                                   [&](plan::Plan &tried, size_t count) { keep(tried, buckets, firstOf(count)); }));
  if (fitting)
    keep(plan, buckets, firstOf(fitting));
  return Status::ok();
}

GatherLives gatherLives(const plan::Plan &plan, const PlanShape &shape) {
  GatherLives lives;
  if (shape.world == 1 || plan.zero() != 3)
    return lives;
  for (const plan::Program &program : plan.programs()) {
    if (program.name() != "microstep")
      continue;
    std::set<uint32_t> seen;
    for (const Gather &gather : gathersOf(plan, program)) {
      if (!seen.insert(gather.bucket).second)
        continue;
      ++lives.gathered;
      const plan::Slot &slot = plan.slots(int(gather.full));
      lives.kept += slot.kept();
      lives.early += slot.carried();
      lives.keptBytes += slot.kept() ? fullBytes(plan, gather.full, shape) : 0;
      lives.earlyBytes += slot.carried() ? fullBytes(plan, gather.full, shape) : 0;
    }
  }
  return lives;
}

std::string describeGathers(const plan::Plan &plan, const PlanShape &shape) {
  const GatherLives lives = gatherLives(plan, shape);
  if (!lives.kept && !lives.early)
    return {};
  std::string text = "of " + std::to_string(lives.gathered) + " gathered buckets ";
  if (lives.early)
    text += std::to_string(lives.early) + " gathered by the update before (" + formatSize(lives.earlyBytes) + ")";
  if (lives.kept)
    text += (lives.early ? ", " : "") + std::to_string(lives.kept) + " kept over micro-steps and to the backward (" +
            formatSize(lives.keptBytes) + ")";
  return text;
}

} // namespace ztc
