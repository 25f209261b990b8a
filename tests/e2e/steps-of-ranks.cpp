// Runs optimizer steps of a plan on W ranks in one process and prints what they computed: bits of losses and norms, and
// a checksum of the parameters. Weights and tokens are functions of names and indices, so that any two plans of one
// model start alike, whatever their stage and W.
//
//     steps-of-ranks PLAN WORLD ACCUMULATE STEPS
#include "runtime/Collective/Communicators.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Memory/Traffic.h"
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace ztc;

namespace {

uint32_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<uint32_t>(value >> 32);
}

/// Weights near 1 where nothing decays (norms), small ones elsewhere.
float initialWeight(uint64_t bucket, uint64_t index, bool decayed) {
  const float unit = static_cast<float>(mix(bucket * 1000003 + index) >> 8) / 8388608.0f - 1.0f;
  return decayed ? 0.05f * unit : 1.0f + 0.05f * unit;
}

/// One rank: its device, arena and executor.
struct Rank {
  const plan::Plan &plan;
  PlanShape shape;
  uint32_t rank;
  Communicator *communicator;
  std::vector<float> losses, norms;
  MemoryPlan memory;
  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Executor> executor;

  bool isSharded(uint32_t slot) const {
    return plan.slots(static_cast<int>(slot)).size().kind() == plan::SizeForm::SHARD;
  }

  Status start() {
    HostDeviceOptions options;
    ZTC_ASSIGN_OR_RETURN(device, createHostDevice(options));
    ZTC_ASSIGN_OR_RETURN(memory, planMemory(plan, shape));
    ZTC_ASSIGN_OR_RETURN(executor, Executor::create(plan, memory, shape, rank, *device, communicator));
    ZTC_ASSIGN_OR_RETURN(arena, device->memory().allocateArena(memory.arenaBytes));
    ZTC_RETURN_IF_ERROR(executor->initialize(*arena));
    for (int b = 0; b < plan.buckets_size(); ++b) {
      const plan::Bucket &bucket = plan.buckets(b);
      ShardRange range{0, bucket.elements()};
      if (isSharded(bucket.parameter_slot()))
        range = shardRange(bucket.elements(), shape.world, rank);
      std::vector<float> weights(range.length);
      for (uint64_t i = 0; i < range.length; ++i)
        weights[i] = initialWeight(static_cast<uint64_t>(b), range.start + i, range.start + i < bucket.decayed());
      ZTC_RETURN_IF_ERROR(executor->writeSlot(bucket.parameter_slot(), 0, weights.data(), weights.size() * 4));
    }
    return Status::ok();
  }

  Status run(uint32_t steps) {
    const plan::Bindings &bindings = plan.bindings();
    const uint64_t tokens = plan.model().batch() * plan.model().seq();
    for (uint32_t step = 0; step < steps; ++step) {
      float numbers[kStepParameterCount] = {};
      const auto set = [&](StepParameter field, double value) {
        numbers[static_cast<uint32_t>(field)] = static_cast<float>(value);
      };
      set(StepParameter::InverseCount, 1.0 / (tokens * shape.world * shape.accumulate));
      set(StepParameter::LearningRate, 1e-2);
      set(StepParameter::DecayFactor, 1 - 1e-3);
      set(StepParameter::StepSize, 1e-2 / (1 - std::pow(0.9, step + 1)));
      set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(0.95, step + 1)));
      set(StepParameter::Beta1, 0.9);
      set(StepParameter::OneMinusBeta1, 0.1);
      set(StepParameter::Beta2, 0.95);
      set(StepParameter::OneMinusBeta2, 0.05);
      set(StepParameter::Epsilon, 1e-8);
      set(StepParameter::Clip, 0.5);
      set(StepParameter::LossScale, 1);
      set(StepParameter::InverseLossScale, 1);
      ZTC_RETURN_IF_ERROR(executor->writeSlot(bindings.step_parameters(), 0, numbers, sizeof(numbers)));
      for (uint32_t m = 0; m < shape.accumulate; ++m) {
        std::vector<int32_t> ids(tokens), targets(tokens);
        const uint64_t row = (uint64_t(step) * shape.accumulate + m) * shape.world + rank;
        for (uint64_t i = 0; i < tokens; ++i) {
          ids[i] = static_cast<int32_t>(mix(row * tokens + i) % plan.model().vocabulary());
          targets[i] = i % 7 == 6 ? -100 : static_cast<int32_t>(mix(row * tokens + i + 1) % plan.model().vocabulary());
        }
        ZTC_RETURN_IF_ERROR(executor->writeSlot(bindings.tokens(), 0, ids.data(), tokens * 4));
        ZTC_RETURN_IF_ERROR(executor->writeSlot(bindings.targets(), 0, targets.data(), tokens * 4));
        ZTC_RETURN_IF_ERROR(executor->execute("microstep", m));
      }
      ZTC_RETURN_IF_ERROR(executor->execute("update"));
      float loss = 0, norm = 0;
      ZTC_RETURN_IF_ERROR(executor->readSlot(bindings.loss(), 0, &loss, 4));
      ZTC_RETURN_IF_ERROR(executor->readSlot(bindings.gradient_norm(), 0, &norm, 4));
      losses.push_back(loss);
      norms.push_back(norm);
    }
    return Status::ok();
  }

  /// What this rank holds of a bucket's parameters, without padding.
  StatusOr<std::vector<float>> weights(const plan::Bucket &bucket) const {
    ShardRange range{0, bucket.elements()};
    if (isSharded(bucket.parameter_slot()))
      range = shardRange(bucket.elements(), shape.world, rank);
    std::vector<float> values(range.length);
    ZTC_RETURN_IF_ERROR(executor->readSlot(bucket.parameter_slot(), 0, values.data(), values.size() * 4));
    return values;
  }
};

Status runAll(const plan::Plan &plan, uint32_t world, uint32_t accumulate, uint32_t steps) {
  ZTC_RETURN_IF_ERROR(validatePlan(plan));
  std::vector<std::unique_ptr<Communicator>> communicators = createThreadCommunicators(world);
  std::vector<Rank> ranks;
  for (uint32_t r = 0; r < world; ++r)
    ranks.push_back(
        {plan, {world, accumulate, 1}, r, world > 1 ? communicators[r].get() : nullptr, {}, {}, {}, {}, {}, {}});
  std::vector<Status> statuses(world, Status::ok());
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < world; ++r)
    threads.emplace_back([&, r] {
      statuses[r] = ranks[r].start();
      if (statuses[r].isOk())
        statuses[r] = ranks[r].run(steps);
      if (!statuses[r].isOk())
        communicators[r]->abort(statuses[r].message());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    ZTC_RETURN_IF_ERROR(status);
  for (const Rank &rank : ranks)
    for (uint32_t step = 0; step < steps; ++step)
      std::printf("rank %u step %u loss %08x norm %08x %.6f\n", rank.rank, step,
                  std::bit_cast<uint32_t>(rank.losses[step]), std::bit_cast<uint32_t>(rank.norms[step]),
                  double(rank.losses[step]));
  Sha256 sum;
  for (const plan::Bucket &bucket : plan.buckets()) {
    std::vector<float> all;
    for (const Rank &rank : ranks) {
      ZTC_ASSIGN_OR_RETURN(std::vector<float> part, rank.weights(bucket));
      if (rank.isSharded(bucket.parameter_slot()))
        all.insert(all.end(), part.begin(), part.end());
      else if (all.empty())
        all = part;
      else if (!part.empty() && std::memcmp(all.data(), part.data(), part.size() * 4) != 0)
        return internalError("rank " + std::to_string(rank.rank) + " has other parameters in " + bucket.name());
    }
    sum.update(all.data(), all.size() * 4);
  }
  std::printf("weights %s\n", Sha256::hex(sum.finish()).c_str());
  if (world > 1) {
    const SentBytes expected = sentBytes(plan, {world, accumulate, 1});
    std::printf("sent %llu of %llu\n", static_cast<unsigned long long>(communicators[0]->traffic().sentBytes()),
                static_cast<unsigned long long>(expected.parametersAndGradients() * steps));
  }
  return Status::ok();
}

} // namespace

int main(int count, char **arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: steps-of-ranks PLAN WORLD ACCUMULATE STEPS\n");
    return 2;
  }
  StatusOr<LoadedPlan> plan = readPlanFile(arguments[1]);
  const auto number = [&](int i) { return static_cast<uint32_t>(std::strtoul(arguments[i], nullptr, 10)); };
  const Status status = plan.isOk() ? runAll(plan->plan, number(2), number(3), number(4)) : plan.status();
  if (status.isOk())
    return 0;
  std::fprintf(stderr, "steps-of-ranks: %s\n", status.message().c_str());
  return 1;
}
