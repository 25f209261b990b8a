// A plan by hand whose model can be computed on paper: one vector w (V), loss = sum over counted targets of
// (w[token] - target)^2, update v = v / 2 + gradient, w -= lr * min(1, clip/(norm + 1e-6)) * v. Its kernels are C++
// functions.
#pragma once
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/KernelSignature.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Ranks/ControlChannel.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ztc::toy {

inline constexpr int kVocabulary = 300;

enum Slot : uint32_t {
  Tokens,
  Targets,
  Step,
  Loss,
  EvalLoss,
  Norm,
  Finite,
  Position,
  Logits,
  Weights,
  Gradient,
  Momentum,
  Squares,
  Staging
};

/// buffers: tokens, targets, step, weights, loss, gradient; scalars: {count of tokens}.
template <bool add> void microstep(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  auto *tokens = static_cast<const int32_t *>(buffers[0]);
  auto *targets = static_cast<const int32_t *>(buffers[1]);
  auto *step = static_cast<const float *>(buffers[2]);
  auto *weights = static_cast<const float *>(buffers[3]);
  auto *loss = static_cast<float *>(buffers[4]);
  auto *gradient = static_cast<float *>(buffers[5]);
  if (!add) {
    *loss = 0;
    std::fill_n(gradient, kVocabulary, 0.0f);
  }
  for (int64_t i = 0; i < scalars[0]; ++i) {
    if (targets[i] < 0)
      continue;
    float difference = weights[tokens[i]] - float(targets[i]);
    *loss += difference * difference;
    gradient[tokens[i]] += 2 * difference * step[uint32_t(StepParameter::InverseCount)];
  }
}

/// Of the rank that runs on this thread: the toy adds its gradients over ranks by itself. Null: one rank.
inline thread_local ControlChannel *ranks = nullptr;

/// gradient := its sum over ranks in rank order; not a number where that fails.
inline void addOverRanks(float *gradient) {
  if (!ranks)
    return;
  const std::span<const float> mine(gradient, kVocabulary);
  const StatusOr<std::vector<Bytes>> all = ranks->allGather("toy gradients", std::as_bytes(mine));
  std::vector<float> sum(kVocabulary, all.isOk() ? 0.0f : NAN);
  if (all.isOk())
    for (const Bytes &theirs : *all)
      for (int i = 0; i < kVocabulary; ++i) {
        float value = NAN;
        std::memcpy(&value, theirs.data() + sizeof value * uint64_t(i), sizeof value);
        sum[uint64_t(i)] += value;
      }
  std::ranges::copy(sum, gradient);
}

/// buffers: step, weights, gradient, norm, finite, momentum.
inline void update(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *step = static_cast<const float *>(buffers[0]);
  auto *weights = static_cast<float *>(buffers[1]);
  auto *gradient = static_cast<float *>(buffers[2]);
  addOverRanks(gradient);
  auto *norm = static_cast<float *>(buffers[3]);
  auto *finite = static_cast<uint8_t *>(buffers[4]);
  auto *momentum = static_cast<float *>(buffers[5]);
  float sum = 0;
  for (int i = 0; i < kVocabulary; ++i)
    sum += gradient[i] * gradient[i];
  *norm = std::sqrt(sum);
  *finite = *norm * step[uint32_t(StepParameter::InverseNormLimit)] < 1;
  if (!*finite)
    return;
  float scale = std::min(1.0f, step[uint32_t(StepParameter::Clip)] / (*norm + 1e-6f));
  for (int i = 0; i < kVocabulary; ++i) {
    momentum[i] = momentum[i] / 2 + gradient[i];
    weights[i] -= step[uint32_t(StepParameter::LearningRate)] * scale * momentum[i];
  }
}

/// buffers: tokens, targets, weights, loss; scalars: {count of tokens}.
inline void evaluate(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  auto *tokens = static_cast<const int32_t *>(buffers[0]);
  auto *targets = static_cast<const int32_t *>(buffers[1]);
  auto *weights = static_cast<const float *>(buffers[2]);
  auto *loss = static_cast<float *>(buffers[3]);
  *loss = 0;
  for (int64_t i = 0; i < scalars[0]; ++i)
    if (targets[i] >= 0)
      *loss += (weights[tokens[i]] - float(targets[i])) * (weights[tokens[i]] - float(targets[i]));
}

/// The likeliest next token is the one at `position` plus 1. buffers: tokens, position, logits.
inline void generate(void *const *buffers, const int64_t *, int64_t, int64_t) {
  auto *tokens = static_cast<const int32_t *>(buffers[0]);
  auto *logits = static_cast<float *>(buffers[2]);
  int32_t token = tokens[*static_cast<const int32_t *>(buffers[1])];
  for (int i = 0; i < kVocabulary; ++i)
    logits[i] = i >= 256 ? 2.0f : i == token + 1 ? 1.0f : 0.0f; // the first 256 alone can be printed
}

inline void addSlot(plan::Plan &plan, const char *name, plan::SlotClass slotClass, uint64_t elements, uint32_t bytes,
                    plan::DataType type) {
  plan::Slot &slot = *plan.add_slots();
  slot.set_name(name);
  slot.set_slot_class(slotClass);
  slot.mutable_size()->set_elements(elements);
  slot.mutable_size()->set_element_bytes(bytes);
  slot.set_type(type);
  slot.add_shape(int64_t(elements));
  slot.set_layer(-1);
  slot.set_persistent(true);
}

inline void addLaunch(plan::Plan &plan, const char *program, uint32_t kernel, uint32_t kernelAdd,
                      plan::Accumulate accumulate, int64_t scalar,
                      const std::vector<std::pair<Slot, plan::Operand::Access>> &operands) {
  plan::Program &p = *plan.add_programs();
  p.set_name(program);
  plan::Step &step = *p.add_steps();
  step.set_name(program);
  step.set_layer(-1);
  for (auto [slot, access] : operands) {
    plan::Operand &operand = *step.add_operands();
    operand.set_slot(slot);
    operand.set_access(access);
  }
  plan::Launch &launch = *step.mutable_launch();
  launch.set_kernel(kernel);
  launch.set_kernel_add(kernelAdd);
  launch.set_accumulate(accumulate);
  launch.set_extent(1);
  launch.set_grain(1);
  launch.add_scalars(scalar);
}

inline plan::Plan makePlan(uint64_t batch, uint64_t seq) {
  plan::Plan plan;
  plan.set_ztc_version("0.1.0");
  plan.set_precision("fp32");
  plan::Model &model = *plan.mutable_model();
  model.set_name("toy");
  model.set_batch(batch);
  model.set_seq(seq);
  model.set_vocabulary(kVocabulary);
  model.set_parameters(kVocabulary);
  uint64_t count = batch * seq;
  addSlot(plan, "tokens", plan::IO, count, 4, plan::I32);
  addSlot(plan, "targets", plan::IO, count, 4, plan::I32);
  addSlot(plan, "step parameters", plan::IO, kStepParameterCount, 4, plan::F32);
  addSlot(plan, "loss", plan::IO, 1, 4, plan::F32);
  addSlot(plan, "eval loss", plan::IO, 1, 4, plan::F32);
  addSlot(plan, "gradient norm", plan::IO, 1, 4, plan::F32);
  addSlot(plan, "finite", plan::IO, 1, 1, plan::I1);
  addSlot(plan, "position", plan::IO, 1, 4, plan::I32);
  addSlot(plan, "logits", plan::IO, kVocabulary, 4, plan::F32);
  addSlot(plan, "weights", plan::PARAMETERS, kVocabulary, 4, plan::F32);
  addSlot(plan, "gradient", plan::GRADIENTS, kVocabulary, 4, plan::F32);
  addSlot(plan, "momentum", plan::OPTIMIZER, kVocabulary, 4, plan::F32);
  addSlot(plan, "squares", plan::OPTIMIZER, kVocabulary, 4, plan::F32);
  addSlot(plan, "staging", plan::IO, 4096, 4, plan::F32);
  for (const char *name : {"toy_microstep", "toy_microstep_add", "toy_update", "toy_eval", "toy_generate"}) {
    plan::Kernel &kernel = *plan.add_kernels();
    kernel.set_name(name);
    kernel.set_form("service");
  }
  using O = plan::Operand;
  addLaunch(plan, "microstep", 0, 1, plan::ADD_UNLESS_FIRST, int64_t(count),
            {{Tokens, O::READ},
             {Targets, O::READ},
             {Step, O::READ},
             {Weights, O::READ},
             {Loss, O::READ_WRITE},
             {Gradient, O::READ_WRITE}});
  addLaunch(plan, "update", 2, 2, plan::OVERWRITE, 0,
            {{Step, O::READ},
             {Weights, O::READ_WRITE},
             {Gradient, O::READ_WRITE},
             {Norm, O::WRITE},
             {Finite, O::WRITE},
             {Momentum, O::READ_WRITE}});
  addLaunch(plan, "eval", 3, 3, plan::OVERWRITE, int64_t(count),
            {{Tokens, O::READ}, {Targets, O::READ}, {Weights, O::READ}, {EvalLoss, O::WRITE}});
  addLaunch(plan, "generate", 4, 4, plan::OVERWRITE, 0, {{Tokens, O::READ}, {Position, O::READ}, {Logits, O::WRITE}});
  plan::Bindings &b = *plan.mutable_bindings();
  b.set_tokens(Tokens);
  b.set_targets(Targets);
  b.set_step_parameters(Step);
  b.set_loss(Loss);
  b.set_eval_loss(EvalLoss);
  b.set_gradient_norm(Norm);
  b.set_finite(Finite);
  b.set_position(Position);
  b.set_logits(Logits);
  b.set_staging(Staging);
  b.set_first_token(kAbsent);
  plan::Bucket &bucket = *plan.add_buckets();
  bucket.set_name("all");
  bucket.set_elements(kVocabulary);
  bucket.set_trainable(true);
  bucket.set_parameter_slot(Weights);
  bucket.set_gradient_slot(Gradient);
  for (auto [name, slot] : {std::pair("exp_avg", Momentum), std::pair("exp_avg_sq", Squares)}) {
    plan::Bucket::State &state = *bucket.add_states();
    state.set_name(name);
    state.set_slot(slot);
  }
  bucket.set_master_slot(kAbsent);
  plan::Parameter &parameter = *plan.add_parameters();
  parameter.set_name("w.weight");
  parameter.add_shape(kVocabulary);
  parameter.set_type(plan::F32);
  parameter.set_trainable(true);
  recordKernelSignatures(plan);
  return plan;
}

/// A host device that has the toy's kernels.
inline StatusOr<std::unique_ptr<Device>> makeDevice() {
  HostDeviceOptions options;
  options.kernels = {{"toy_microstep", microstep<false>},
                     {"toy_microstep_add", microstep<true>},
                     {"toy_update", update},
                     {"toy_eval", evaluate},
                     {"toy_generate", generate}};
  return createHostDevice(std::move(options));
}

/// The toy on the host device, ready to run.
struct Machine {
  plan::Plan plan;
  PlanShape shape;
  MemoryPlan memory;
  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Executor> executor;

  Status start(uint64_t batch, uint64_t seq, uint32_t accumulate = 1) {
    plan = makePlan(batch, seq);
    shape.accumulate = accumulate;
    ZTC_ASSIGN_OR_RETURN(device, makeDevice());
    ZTC_ASSIGN_OR_RETURN(memory, planMemory(plan, shape));
    ZTC_ASSIGN_OR_RETURN(executor, Executor::create(plan, memory, shape, 0, *device));
    ZTC_ASSIGN_OR_RETURN(arena, device->memory().allocateArena(memory.arenaBytes));
    return executor->initialize(*arena);
  }

  float *floats(Slot slot) const { return reinterpret_cast<float *>(executor->slotAddress(slot)); }
};

} // namespace ztc::toy
