// The small talk between ranks: exchanges, a key-value store, progress reports, and the news that a rank is lost.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ProgressBoard.h"
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ztc {

using Bytes = std::vector<std::byte>;

/// The most that one rank gives to one exchange, and the largest value of the key-value store.
inline constexpr size_t kMaxExchangeBytes = size_t(64) << 10;
inline constexpr size_t kMaxValueBytes = size_t(1) << 20;

/// Why a run of several ranks cannot go on; the same on all ranks that can still be told.
struct RunFailure {
  Status status;           ///< names the rank, its step and its collective
  uint32_t rank = 0;       ///< the rank that was lost, hangs, or met the error
  bool reportHere = false; ///< this rank prints the message: one rank does
  uint32_t reporter = 0;   ///< that rank; on other hosts another one may print it too
};

/// What rank 0 knows of a rank.
struct RankState {
  RankProgress progress;
  double silentSeconds = 0; ///< since its last report (there are several a second)
  double stillSeconds = 0;  ///< since one of its counters moved
};

/// One object per rank. All members may be called from any thread. Whatever waits ends with the status of the failure
/// (Unavailable) as soon as a rank is lost, hangs, or fails: there is no time limit of its own to choose.
///
/// Exchanges have names. The n-th post of a name on one rank meets the n-th post of that name on every other; several
/// may be under way, and `collect` takes them in order. So the counts of step t+1 travel while step t runs:
///
///     control.post("counts", bytesOf(counts));  ...step t...  auto all = control.collect("counts");
class ControlChannel {
public:
  /// Leaving without finish() looks to the other ranks like the loss of this one.
  virtual ~ControlChannel() = default;

  uint32_t rank() const { return rank_; }
  uint32_t world() const { return world_; }
  /// What this rank reports several times a second. Keep it up to date; it costs next to nothing.
  ProgressBoard &progress() { return progress_; }
  /// This rank's address on the route to the other ranks, numeric: what a communicator binds to and announces.
  /// 127.0.0.1 where all ranks share one host.
  const std::string &localAddress() const { return localAddress_; }

  /// Gives at most kMaxExchangeBytes to an exchange; does not wait.
  virtual Status post(std::string_view exchange, std::span<const std::byte> bytes) = 0;
  /// Waits for the oldest exchange of that name which was posted here and not yet collected: every rank's bytes, in
  /// rank order.
  virtual StatusOr<std::vector<Bytes>> collect(std::string_view exchange) = 0;

  /// The key-value store at rank 0. A second set replaces the value.
  virtual Status set(std::string_view key, std::span<const std::byte> value) = 0;
  /// Waits until the key has a value.
  virtual StatusOr<Bytes> get(std::string_view key) = 0;

  /// Tells the other ranks that this one cannot go on, waits a moment for a deeper cause (a broken connection is the
  /// symptom of a lost rank), and returns what the whole run ends with. Once there is a failure, returns that.
  /// Unavailable counts as a symptom, every other code as a cause.
  virtual RunFailure fail(Status status) = 0;
  /// Ok, or the failure's status, without waiting.
  virtual Status status() const = 0;
  /// Called once, from the channel's own thread, or at once where there is a failure already: to abort communicators
  /// that wait for a lost rank. Must not call the channel. An empty function takes the last one back; after that
  /// returns the old one does not run any more.
  virtual void onFailure(std::function<void(const Status &)> callback) = 0;

  /// Rank 0: what it knows of every rank, in rank order. Empty on the others.
  virtual std::vector<RankState> states() const = 0;
  /// Orderly end: waits until every rank has come here. Afterwards nothing may be posted.
  virtual Status finish() = 0;

  // Conveniences: each is a post and a collect.
  StatusOr<std::vector<Bytes>> allGather(std::string_view exchange, std::span<const std::byte> bytes);
  /// Waits until every rank is here.
  Status barrier(std::string_view what);
  /// Rank 0's bytes, on every rank; those of the other ranks are not looked at.
  StatusOr<Bytes> broadcast(std::string_view exchange, std::span<const std::byte> bytes);

protected:
  ControlChannel(uint32_t rank, uint32_t world) : rank_(rank), world_(world) {}
  const uint32_t rank_;
  const uint32_t world_;
  std::string localAddress_ = "127.0.0.1";
  ProgressBoard progress_;
};

/// A value as bytes, and every rank's value of an exchange; T is the same plain struct or number on all ranks.
template <typename T> std::span<const std::byte> bytesOf(const T &value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <typename T> StatusOr<std::vector<T>> collectValues(ControlChannel &control, std::string_view exchange) {
  ZTC_ASSIGN_OR_RETURN(std::vector<Bytes> all, control.collect(exchange));
  std::vector<T> values(all.size());
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() != sizeof(T))
      return internalError("exchange " + std::string(exchange) + ": rank " + std::to_string(r) + " gave " +
                           std::to_string(all[r].size()) + " bytes, expected " + std::to_string(sizeof(T)));
    std::memcpy(&values[r], all[r].data(), sizeof(T));
  }
  return values;
}
template <typename T>
StatusOr<std::vector<T>> allGatherValue(ControlChannel &control, std::string_view exchange, const T &value) {
  ZTC_RETURN_IF_ERROR(control.post(exchange, bytesOf(value)));
  return collectValues<T>(control, exchange);
}

/// The channel of a run of one rank: everything is at hand, nothing waits, there is no thread.
std::unique_ptr<ControlChannel> createSingleChannel();

} // namespace ztc
