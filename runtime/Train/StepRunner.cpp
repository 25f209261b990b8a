#include "runtime/Train/StepRunner.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/UpdateTime.h"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <utility>

namespace ztc {

namespace {

/// What an update leaves, as it is read back.
struct Results {
  float loss = 0;
  float gradientNorm = 0;
  std::byte finite[sizeof(float)] = {}; ///< f32, or I1 in one byte
};

uint64_t finiteBytes(const plan::Plan &plan) {
  return plan.slots(int(plan.bindings().finite())).type() == plan::F32 ? sizeof(float) : 1;
}

} // namespace

StatusOr<StepRunner> StepRunner::create(const plan::Plan &plan, Executor &executor) {
  const plan::Bindings &b = plan.bindings();
  const std::pair<const char *, uint32_t> needed[]{{"tokens", b.tokens()},
                                                   {"targets", b.targets()},
                                                   {"step_parameters", b.step_parameters()},
                                                   {"loss", b.loss()},
                                                   {"gradient_norm", b.gradient_norm()},
                                                   {"finite", b.finite()}};
  for (const auto &[name, slot] : needed)
    if (slot == kAbsent || slot >= uint32_t(plan.slots_size()))
      return invalidArgument(fmt::format("the plan has no slot for {}: it cannot be trained", name));
  for (const char *program : {"microstep", "update"})
    if (!executor.hasProgram(program) && !updatesInBackward(plan))
      return invalidArgument(fmt::format("the plan has no program {}: it cannot be trained", program));
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<ReadBack> results, executor.createReadBack(sizeof(Results)));
  StepRunner runner(plan, executor, std::move(results));
  if (const auto none = runner.setFp8Maxima({}); !none.isOk())
    return none.status();
  return StatusOr<StepRunner>(std::move(runner));
}

StatusOr<std::vector<float>> StepRunner::readFp8Maxima() const {
  std::vector<float> records(fp8Matrices() * kFp8ScaleRecord), maxima;
  if (!records.empty())
    ZTC_RETURN_IF_ERROR(
        executor_->readSlot(plan_->bindings().fp8_amax(), 0, records.data(), records.size() * sizeof(float)));
  for (size_t first = 0; first < records.size(); first += kFp8ScaleRecord)
    maxima.push_back(records[first]);
  return maxima;
}

Status StepRunner::writeFp8Maxima(std::span<const float> maxima) {
  if (maxima.empty())
    return Status::ok();
  std::vector<float> records(maxima.size() * kFp8ScaleRecord);
  for (size_t i = 0; i < maxima.size(); ++i)
    records[i * kFp8ScaleRecord] = maxima[i];
  return executor_->writeSlot(plan_->bindings().fp8_amax(), 0, records.data(), records.size() * sizeof(float));
}

StatusOr<std::map<std::string, float>> StepRunner::fp8Maxima() const {
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> maxima, readFp8Maxima());
  std::map<std::string, float> named;
  for (size_t i = 0; i < maxima.size(); ++i)
    for (const std::string &name : plan_->scaled_matrices(int(i)).names())
      named[name] = maxima[i];
  return named;
}

StatusOr<uint64_t> StepRunner::setFp8Maxima(const std::map<std::string, float> &maxima) {
  knownFp8Maxima_.assign(fp8Matrices(), 0);
  for (size_t i = 0; i < knownFp8Maxima_.size(); ++i) {
    const auto &names = plan_->scaled_matrices(int(i)).names();
    if (!std::ranges::all_of(names, [&](const std::string &name) { return maxima.contains(name); }))
      continue;
    for (const std::string &name : names)
      knownFp8Maxima_[i] = std::max(knownFp8Maxima_[i], maxima.at(name));
  }
  const auto known = uint64_t(std::ranges::count_if(knownFp8Maxima_, [](float maximum) { return maximum > 0; }));
  needsFp8Maxima_ = known < knownFp8Maxima_.size();
  ZTC_RETURN_IF_ERROR(writeFp8Maxima(knownFp8Maxima_));
  return known;
}

/// The first round finds what no scale has a part in, and as cotangents those of the residual stream: with a scale of 1
/// those of a small loss have no codes but 0, and what a product makes of them is 0. The second finds those of the
/// matrices that a product leads to, the third those behind attention's gradient and what saturated codes had bent.
static constexpr int kFp8Rounds = 3;

Status StepRunner::findFp8Maxima(const GlobalBatch &batch, StepParameterArray parameters) {
  parameters[size_t(StepParameter::InverseNormLimit)] = std::numeric_limits<float>::infinity(); // updates nothing
  for (int round = 0; round < kFp8Rounds; ++round) {
    ZTC_RETURN_IF_ERROR(begin(batch, parameters));
    ZTC_RETURN_IF_ERROR(executor_->execute("update"));
    if (std::ranges::none_of(knownFp8Maxima_, [](float maximum) { return maximum > 0; }))
      continue;
    ZTC_ASSIGN_OR_RETURN(std::vector<float> maxima, readFp8Maxima());
    for (size_t i = 0; i < maxima.size(); ++i)
      if (knownFp8Maxima_[i] > 0)
        maxima[i] = knownFp8Maxima_[i];
    ZTC_RETURN_IF_ERROR(writeFp8Maxima(maxima));
  }
  needsFp8Maxima_ = false;
  return Status::ok();
}

Status StepRunner::feed(const GlobalBatch &batch, uint64_t microBatch) {
  auto tokens = std::as_bytes(batch.tokens(microBatch));
  auto targets = std::as_bytes(batch.targets(microBatch));
  ZTC_RETURN_IF_ERROR(executor_->writeSlot(plan_->bindings().tokens(), 0, tokens.data(), tokens.size()));
  ZTC_RETURN_IF_ERROR(executor_->writeSlot(plan_->bindings().targets(), 0, targets.data(), targets.size()));
  if (plan_->bindings().has_loss_weights()) {
    auto weights = std::as_bytes(batch.weights(microBatch));
    ZTC_RETURN_IF_ERROR(executor_->writeSlot(plan_->bindings().loss_weights(), 0, weights.data(), weights.size()));
  }
  if (!plan_->bindings().has_document_starts())
    return Status::ok();
  auto starts = std::as_bytes(batch.documentStarts(microBatch));
  return executor_->writeSlot(plan_->bindings().document_starts(), 0, starts.data(), starts.size());
}

Status StepRunner::begin(const GlobalBatch &batch, const StepParameterArray &parameters) {
  ZTC_RETURN_IF_ERROR(
      executor_->writeSlot(plan_->bindings().step_parameters(), 0, parameters.data(), sizeof(StepParameterArray)));
  for (uint64_t m = 0; m < batch.microBatches(); ++m) {
    ZTC_RETURN_IF_ERROR(feed(batch, m));
    if (const uint32_t slot = plan_->bindings().first_token(); slot != kAbsent) {
      const int64_t first = batch.firstToken(m);
      ZTC_RETURN_IF_ERROR(executor_->writeSlot(slot, 0, &first, sizeof first));
    }
    ZTC_RETURN_IF_ERROR(executor_->execute("microstep", uint32_t(m)));
  }
  return Status::ok();
}

Status StepRunner::update() {
  if (!updatesInBackward(*plan_)) // else the micro-step has done it
    ZTC_RETURN_IF_ERROR(executor_->execute("update"));
  // The next step's programs take the place of these slots.
  const plan::Bindings &b = plan_->bindings();
  ZTC_RETURN_IF_ERROR(executor_->readLater(b.loss(), 0, sizeof(float), *results_, offsetof(Results, loss)));
  ZTC_RETURN_IF_ERROR(
      executor_->readLater(b.gradient_norm(), 0, sizeof(float), *results_, offsetof(Results, gradientNorm)));
  return executor_->readLater(b.finite(), 0, finiteBytes(*plan_), *results_, offsetof(Results, finite));
}

StatusOr<StepResult> StepRunner::result() const {
  ZTC_ASSIGN_OR_RETURN(const std::byte *bytes, results_->wait());
  Results results;
  std::memcpy(&results, bytes, sizeof results);
  bool updated = results.finite[0] != std::byte(0);
  if (finiteBytes(*plan_) == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, results.finite, sizeof value);
    updated = value != 0;
  }
  // With updates in the backward each bucket was tested before its own; a loss that overflows may have finite
  // gradients.
  const bool finite =
      std::isfinite(results.gradientNorm) && (!updatesInBackward(*plan_) || std::isfinite(results.loss));
  return StepResult{
      .lossSum = results.loss, .gradientNorm = results.gradientNorm, .finite = finite, .updated = updated && finite};
}

StatusOr<std::span<const float>> StepRunner::evaluateLosses(const GlobalBatch &batch) {
  if (plan_->bindings().eval_loss() == kAbsent || !canEvaluate())
    return invalidArgument("the plan has no program eval: compile it again to use --eval-data");
  ZTC_RETURN_IF_ERROR(feed(batch, 0));
  ZTC_RETURN_IF_ERROR(executor_->execute("eval"));
  const plan::Slot &slot = plan_->slots(int(plan_->bindings().eval_loss()));
  const bool hasRows =
      slot.size().kind() == plan::SizeForm::CONSTANT && slot.size().elements() == plan_->model().batch();
  losses_.resize(hasRows ? plan_->model().batch() : 1);
  ZTC_RETURN_IF_ERROR(
      executor_->readSlot(plan_->bindings().eval_loss(), 0, losses_.data(), losses_.size() * sizeof(float)));
  return std::span<const float>(losses_);
}

StatusOr<double> StepRunner::evaluate(const GlobalBatch &batch) {
  ZTC_ASSIGN_OR_RETURN(const std::span<const float> losses, evaluateLosses(batch));
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

} // namespace ztc
