#include "runtime/Ranks/ControlChannel.h"
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace ztc {

StatusOr<std::vector<Bytes>> ControlChannel::allGather(std::string_view exchange, std::span<const std::byte> bytes) {
  ZTC_RETURN_IF_ERROR(post(exchange, bytes));
  return collect(exchange);
}

Status ControlChannel::barrier(std::string_view what) {
  return allGather(what, {}).status();
}

StatusOr<Bytes> ControlChannel::broadcast(std::string_view exchange, std::span<const std::byte> bytes) {
  ZTC_ASSIGN_OR_RETURN(std::vector<Bytes> all, allGather(exchange, rank_ == 0 ? bytes : std::span<const std::byte>()));
  return std::move(all[0]);
}

namespace {

class SingleChannel final : public ControlChannel {
public:
  SingleChannel() : ControlChannel(0, 1) {}

  Status post(std::string_view exchange, std::span<const std::byte> bytes) override {
    std::lock_guard lock(mutex_);
    ZTC_RETURN_IF_ERROR(failure_);
    if (bytes.size() > kMaxExchangeBytes)
      return internalError("exchange " + std::string(exchange) + ": too many bytes");
    posted_[std::string(exchange)].emplace_back(bytes.begin(), bytes.end());
    return Status::ok();
  }

  StatusOr<std::vector<Bytes>> collect(std::string_view exchange) override {
    std::lock_guard lock(mutex_);
    ZTC_RETURN_IF_ERROR(failure_);
    auto found = posted_.find(exchange);
    if (found == posted_.end() || found->second.empty())
      return internalError("exchange " + std::string(exchange) + ": nothing was posted");
    std::vector<Bytes> all{std::move(found->second.front())};
    found->second.pop_front();
    return all;
  }

  Status set(std::string_view key, std::span<const std::byte> value) override {
    std::lock_guard lock(mutex_);
    if (value.size() > kMaxValueBytes)
      return internalError("key " + std::string(key) + ": value too large");
    values_[std::string(key)] = Bytes(value.begin(), value.end());
    changed_.notify_all();
    return Status::ok();
  }

  StatusOr<Bytes> get(std::string_view key) override {
    std::unique_lock lock(mutex_);
    auto found = values_.end();
    changed_.wait(lock, [&] {
      found = values_.find(key);
      return found != values_.end() || !failure_.isOk();
    });
    ZTC_RETURN_IF_ERROR(failure_);
    return found->second;
  }

  RunFailure fail(Status status) override {
    std::function<void(const Status &)> callback;
    {
      std::lock_guard lock(mutex_);
      if (failure_.isOk()) {
        failure_ = std::move(status);
        callback = std::move(callback_);
      }
      changed_.notify_all();
    }
    if (callback)
      callback(failure_);
    return {failure_, 0, true};
  }

  Status status() const override {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  void onFailure(std::function<void(const Status &)> callback) override {
    std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }

  std::vector<RankState> states() const override { return {RankState{progress_.snapshot(), 0, 0}}; }
  Status finish() override { return status(); }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::deque<Bytes>, std::less<>> posted_;
  std::map<std::string, Bytes, std::less<>> values_;
  Status failure_;
  std::function<void(const Status &)> callback_;
};

} // namespace

std::unique_ptr<ControlChannel> createSingleChannel() {
  return std::make_unique<SingleChannel>();
}

} // namespace ztc
