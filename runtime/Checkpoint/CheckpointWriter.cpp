#include "runtime/Checkpoint/CheckpointWriter.h"
#include "runtime/Core/NamedRange.h"
#include <set>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace ztc {

/// How much nicer than the rest, as `nice` counts: enough for steps to go first, and not so much that other programs of
/// the machine keep a checkpoint from its end.
static constexpr int kNicer = 10;

bool onlyUpdateWritesState(const plan::Plan &plan) {
  std::set<uint32_t> state;
  for (const plan::Bucket &bucket : plan.buckets()) {
    state.insert(bucket.parameter_slot());
    if (!bucket.trainable())
      continue;
    state.insert(bucket.master_slot());
    for (const plan::Bucket::State &kept : bucket.states())
      state.insert(kept.slot());
  }
  for (const plan::Program &program : plan.programs()) {
    if (program.name() != "microstep" && program.name() != "eval")
      continue;
    for (const plan::Step &step : program.steps())
      for (const plan::Operand &operand : step.operands())
        if (operand.access() != plan::Operand::READ && state.count(operand.slot()))
          return false;
  }
  return true;
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable())
    thread_.join();
}

void CheckpointWriter::begin(const StateContext &context, TrainerState state, std::string folder, SaveOptions options,
                             std::function<void(const std::string &path)> written) {
  isInFlight_ = true;
  isRead_ = false;
  outcome_.reset();
  auto write = [this, context, state = std::move(state), folder = std::move(folder), options = std::move(options),
                written = std::move(written)] {
    const NamedRange range("save");
    const auto hasRead = [this] {
      {
        std::lock_guard lock(mutex_);
        isRead_ = true;
        changed_.notify_all();
      }
      // Checksums are not worth a step's time: from here on nobody waits.
      if (concurrent_)
        ::setpriority(PRIO_PROCESS, id_t(::gettid()), ::getpriority(PRIO_PROCESS, id_t(::gettid())) + kNicer);
    };
    StatusOr<std::string> outcome = saveCheckpoint(context, state, folder, options, hasRead);
    if (outcome.isOk() && written)
      written(*outcome);
    std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    isRead_ = true; // it may have failed before
    changed_.notify_all();
  };
  if (concurrent_)
    thread_ = std::thread(std::move(write));
  else
    write();
}

void CheckpointWriter::awaitReading() {
  if (!isInFlight_)
    return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return isRead_; });
}

bool CheckpointWriter::isWritten() {
  std::lock_guard lock(mutex_);
  return isInFlight_ && outcome_.has_value();
}

StatusOr<std::string> CheckpointWriter::end() {
  if (!isInFlight_)
    return internalError("no checkpoint is on its way");
  if (thread_.joinable())
    thread_.join();
  isInFlight_ = false;
  return *std::exchange(outcome_, std::nullopt);
}

} // namespace ztc
