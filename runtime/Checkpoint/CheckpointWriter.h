// A checkpoint that is written while training goes on.
#pragma once
#include "runtime/Checkpoint/Checkpoint.h"
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ztc {

/// True where the programs that run between two updates write nothing that a checkpoint is made of: parameters, masters
/// and moments, by slot. Where a slot shares its memory with another one at one rank, nothing is moved between them.
bool onlyUpdateWritesState(const plan::Plan &plan);

/// Calls saveCheckpoint() in a thread of its own, or where that gains nothing in the caller's. One checkpoint is on its
/// way at a time; all ranks begin and end the same ones. Its exchanges have names that nobody uses meanwhile.
class CheckpointWriter {
public:
  /// `beside`: the memory of the contexts may be read by another thread while programs run.
  explicit CheckpointWriter(bool concurrent) : concurrent_(concurrent) {}
  /// Waits until what is on its way is written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter &) = delete;
  CheckpointWriter &operator=(const CheckpointWriter &) = delete;

  bool isConcurrent() const { return concurrent_; }
  /// Only while none is on its way. What the context refers to has to live until end(), and nobody else may use its
  /// staging buffer. `written` is called with the path, in the thread that writes, where the checkpoint is whole.
  void begin(const StateContext &context, TrainerState state, std::string folder, SaveOptions options = {},
             std::function<void(const std::string &path)> written = {});
  bool isInFlight() const { return isInFlight_; }
  /// What this rank owns has been read, or there is nothing to read: its state may change.
  void awaitReading();
  /// There is one on its way, and end() would not wait.
  bool isWritten();
  /// Waits for the outcome of the one on its way: its path.
  StatusOr<std::string> end();

private:
  const bool concurrent_;
  bool isInFlight_ = false; ///< of the thread that calls
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isRead_ = false;                               ///< guarded by mutex_
  std::optional<StatusOr<std::string>> outcome_ = {}; ///< guarded by mutex_
};

} // namespace ztc
