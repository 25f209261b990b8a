// What this rank is doing, as the other ranks and the watchdog see it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// A copy of a board. `work` and `bytes` only grow: a rank none of whose counters grows for --timeout seconds hangs.
struct RankProgress {
  std::string phase = {};      ///< "loading", "training", "saving", ...
  uint64_t step = 0;           ///< optimizer step, from 0 as in the log
  std::string place = {};      ///< program and plan step: "microstep, 'blocks.0 all_gather'"
  std::string collective = {}; ///< the collective in flight or, where none is, the last one: "all_gather blocks.0"
  bool inCollective = false;   ///< it waits in `collective` now
  std::string waitsFor = {};   ///< the exchange of the control channel that it waits in now, or empty
  uint64_t work = 0;           ///< plan steps begun, exchanges and collectives finished
  uint64_t bytes = 0;          ///< loaded or saved
};

/// Written by the threads that work, read by the thread that reports. Writing costs a few relaxed stores, cheap enough
/// for every plan step. Names are kept as pointers: they are valid until forgetNames() or the end of the process.
class ProgressBoard {
public:
  /// `phase` is a literal.
  void enterPhase(const char *phase) { phase_.store(phase, std::memory_order_relaxed); }
  void enterStep(uint64_t step) {
    step_.store(step, std::memory_order_relaxed);
    addWork();
  }
  /// A plan step begins. `program` and `name` belong to the plan.
  void beginPlanStep(const char *program, const char *name) {
    program_.store(program, std::memory_order_relaxed);
    planStep_.store(name, std::memory_order_relaxed);
    addWork();
  }
  /// A collective is entered and left, on whichever thread runs it. `name` belongs to the plan or is a literal and
  /// says what is gathered or reduced: "all_gather blocks.0".
  void beginCollective(const char *name) {
    collective_.store(name, std::memory_order_relaxed);
    inCollective_.store(true, std::memory_order_relaxed);
  }
  void endCollective() {
    inCollective_.store(false, std::memory_order_relaxed);
    addWork();
  }
  /// What the board shows of a program: for a device that is behind the thread that gives it work.
  struct Place {
    uint64_t step = 0;
    const char *program = nullptr, *planStep = nullptr, *collective = nullptr; ///< as they were given
    bool inCollective = false;
  };
  Place place() const {
    return {step_.load(std::memory_order_relaxed), program_.load(std::memory_order_relaxed),
            planStep_.load(std::memory_order_relaxed), collective_.load(std::memory_order_relaxed),
            inCollective_.load(std::memory_order_relaxed)};
  }
  void show(const Place &place) {
    step_.store(place.step, std::memory_order_relaxed);
    program_.store(place.program, std::memory_order_relaxed);
    planStep_.store(place.planStep, std::memory_order_relaxed);
    collective_.store(place.collective, std::memory_order_relaxed);
    inCollective_.store(place.inCollective, std::memory_order_relaxed);
  }
  /// Something was done that is none of the above.
  void addWork(uint64_t amount = 1) { work_.fetch_add(amount, std::memory_order_relaxed); }
  /// Bytes were read from or written to a file.
  void addBytes(uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// A thread waits in an exchange of the control channel, or no longer. The board tells of the one that waits longest.
  void enterExchange(std::string name) {
    std::lock_guard lock(mutex_);
    exchanges_.push_back(std::move(name));
  }
  void leaveExchange(const std::string &name) {
    {
      std::lock_guard lock(mutex_);
      if (auto found = std::ranges::find(exchanges_, name); found != exchanges_.end())
        exchanges_.erase(found);
    }
    addWork();
  }

  /// A counter kept elsewhere (bytes that a communicator has sent) whose growth is work too. Until forgetNames().
  void alsoCount(std::function<uint64_t()> counter) {
    std::lock_guard lock(mutex_);
    counters_.push_back(std::move(counter));
  }

  /// Before the plan whose names are on the board goes away. Keeps what last words need.
  void forgetNames() {
    std::lock_guard lock(mutex_);
    if (const char *name = collective_.exchange(nullptr))
      lastCollective_ = name;
    const char *program = program_.exchange(nullptr), *planStep = planStep_.exchange(nullptr);
    if (program && planStep)
      lastPlace_ = placeOf(program, planStep);
    for (const auto &counter : counters_)
      addWork(counter());
    counters_.clear();
  }

  /// Any thread.
  RankProgress snapshot() const {
    std::lock_guard lock(mutex_); // the names stay valid while it is held
    RankProgress now;
    now.phase = phase_.load(std::memory_order_relaxed);
    now.step = step_.load(std::memory_order_relaxed);
    const char *program = program_.load(std::memory_order_relaxed);
    const char *planStep = planStep_.load(std::memory_order_relaxed);
    now.place = program && planStep ? placeOf(program, planStep) : lastPlace_;
    const char *collective = collective_.load(std::memory_order_relaxed);
    now.collective = collective ? collective : lastCollective_;
    now.inCollective = inCollective_.load(std::memory_order_relaxed);
    now.waitsFor = exchanges_.empty() ? "" : exchanges_.front();
    now.work = work_.load(std::memory_order_relaxed);
    for (const auto &counter : counters_)
      now.work += counter();
    now.bytes = bytes_.load(std::memory_order_relaxed);
    return now;
  }

private:
  static std::string placeOf(const char *program, const char *planStep) {
    return std::string(program) + ", '" + planStep + "'";
  }
  mutable std::mutex mutex_;
  std::vector<std::string> exchanges_;
  std::string lastCollective_, lastPlace_;
  std::vector<std::function<uint64_t()>> counters_;
  std::atomic<const char *> phase_{"starting"};
  std::atomic<const char *> program_{nullptr};
  std::atomic<const char *> planStep_{nullptr};
  std::atomic<const char *> collective_{nullptr};
  std::atomic<bool> inCollective_{false};
  std::atomic<uint64_t> step_{0};
  std::atomic<uint64_t> work_{0};
  std::atomic<uint64_t> bytes_{0};
};

} // namespace ztc
