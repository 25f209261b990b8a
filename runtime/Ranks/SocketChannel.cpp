#include "runtime/Ranks/SocketChannel.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/ControlServer.h"
#include "runtime/Ranks/RunSecret.h"
#include "runtime/Ranks/ThreadChannels.h"
#include "runtime/Ranks/Watchdog.h"
#include "runtime/Ranks/Wire.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace {

/// Longer than the server waits for a cause.
constexpr auto kVerdictWait = std::chrono::milliseconds(3000);
constexpr auto kCancelWait = std::chrono::milliseconds(100);
/// The last words of a rank that is lost are at most so old.
constexpr double kReportSeconds = 0.25;
constexpr auto kRetryWait = std::chrono::milliseconds(100);
/// The person hears what is awaited after so long, and then after twice, four times, ... as long.
constexpr double kNoticeSeconds = 10;

/// What a rank says of itself, as its Hello has it.
std::string claimOf(uint32_t rank, uint32_t world, std::string_view version) {
  MessageWriter claim(MessageType::Hello);
  claim.number(rank).number(world).text(version);
  return claim.take().substr(5); // without length and type
}

/// How the attempt to become a rank of a run ended.
struct Joined {
  RunFailure failure; ///< ok: welcomed
  bool mayTryAgain = false;
};

class SocketChannel final : public ControlChannel {
public:
  /// Takes over `socket`. Its thread starts at once and says hello.
  SocketChannel(const JoinOptions &options, int socket, std::unique_ptr<ControlServer> server)
      : ControlChannel(options.rank, options.world), options_(options), server_(std::move(server)), connection_(socket),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    connection_.setLimit(size_t(world_) * (kMaxExchangeBytes + 8) + kMaxValueBytes + 4096);
    thread_ = std::thread([this] { talk(); });
  }

  ~SocketChannel() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    thread_.join();
    close(wake_);
  }

  Joined awaitWelcome() {
    std::unique_lock lock(mutex_);
    while (!welcomed_ && !refused_ && failure_.status.isOk()) {
      changed_.wait_for(lock, kCancelWait);
      if (!welcomed_ && options_.cancelled && options_.cancelled())
        return {refusal(unavailable("stopped by a signal before all ranks were there")), false};
    }
    if (refused_)
      return *refused_;
    return {failure_, false};
  }

  Status post(std::string_view exchange, std::span<const std::byte> bytes) override;
  StatusOr<std::vector<Bytes>> collect(std::string_view exchange) override;
  Status set(std::string_view key, std::span<const std::byte> value) override;
  StatusOr<Bytes> get(std::string_view key) override;
  RunFailure fail(Status status) override;
  Status finish() override;

  Status status() const override {
    std::lock_guard lock(mutex_);
    return failure_.status;
  }

  void onFailure(std::function<void(const Status &)> callback) override {
    std::lock_guard calling(callbackMutex_);
    Status failed = status();
    if (callback && !failed.isOk())
      return callback(failed);
    callback_ = std::move(callback);
  }

  std::vector<RankState> states() const override { return server_ ? server_->states() : std::vector<RankState>(); }

private:
  /// What ends this rank alone: it says so itself.
  RunFailure refusal(Status status) const { return {std::move(status), rank_, true, rank_}; }

  /// Numbers and results of the exchanges of one name.
  struct Exchange {
    uint64_t posted = 0, collected = 0;
    std::deque<std::vector<Bytes>> results; ///< of `collected`, `collected` + 1, ...
  };

  void talk();
  void handle(MessageReader message);
  void setFailure(RunFailure failure);
  void loseServer();
  void wake() {
    uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
  }
  /// With mutex_ held.
  void send(const std::string &message) {
    out_ += message;
    wake();
  }
  /// Waits, with the board saying for what, until `ready`, or ends with the failure.
  template <typename Ready> Status wait(std::unique_lock<std::mutex> &lock, const std::string &what, Ready ready) {
    bool waits = !ready() && failure_.status.isOk();
    if (waits)
      progress_.enterExchange(what);
    changed_.wait(lock, [&] { return ready() || !failure_.status.isOk(); });
    if (waits)
      progress_.leaveExchange(what);
    return ready() ? Status::ok() : failure_.status;
  }

  JoinOptions options_;
  std::unique_ptr<ControlServer> server_; ///< rank 0
  Connection connection_;                 ///< only the channel's thread touches it
  int wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string out_;
  bool stop_ = false, welcomed_ = false, allDone_ = false, probed_ = false;
  std::optional<Joined> refused_;
  RunFailure failure_;
  std::map<std::string, Exchange, std::less<>> exchanges_;
  std::map<uint64_t, std::optional<Bytes>> requests_;
  uint64_t lastRequest_ = 0;
  RankProgress firstRank_; ///< as its server last told
  bool greeted_ = false;   ///< the channel's thread only
  std::string expected_;   ///< the proof in the Welcome of rank 0; the channel's thread only
  double silentSeconds_ = 0;
  std::mutex callbackMutex_;
  std::function<void(const Status &)> callback_;
  std::thread thread_;
};

void SocketChannel::talk() {
  const double interval = std::min(kReportSeconds, options_.timeoutSeconds / 5);
  ObservedClock clock;
  double lastReport = 0;
  bool open = true;
  while (true) {
    bool stop, report;
    double now = steadySeconds();
    {
      std::lock_guard lock(mutex_);
      stop = stop_;
      report = welcomed_ && !allDone_ && (probed_ || now - lastReport >= interval);
      probed_ = false;
      connection_.send(std::exchange(out_, {}));
    }
    if (report) {
      lastReport = now;
      connection_.send(MessageWriter(MessageType::Report).progress(progress_.snapshot()).take());
    }
    if (open && !connection_.flush()) {
      open = false;
      loseServer();
    }
    if (stop)
      return;
    pollfd wait[2] = {
        {wake_, POLLIN, 0},
        {open ? connection_.descriptor() : -1, short(POLLIN | (connection_.wantsToWrite() ? POLLOUT : 0)), 0}};
    poll(wait, 2, int(interval * 1000 / 2));
    uint64_t count;
    (void)!read(wake_, &count, sizeof count);
    double passed = clock.advance(steadySeconds());
    if (wait[1].revents & (POLLIN | POLLHUP | POLLERR)) {
      silentSeconds_ = 0;
      bool alive = connection_.receive();
      while (auto message = connection_.next())
        handle(MessageReader(*message));
      if (!alive || connection_.isBroken()) {
        open = false;
        loseServer();
      }
    } else if (open && welcomed_) {
      silentSeconds_ += passed;
      if (silentSeconds_ >= options_.timeoutSeconds)
        setFailure(
            {unavailable(fmt::format("rank 0 was not heard for {:.0f} s: its process is stopped or its host cannot "
                                     "be reached (--timeout={:g}); it was last heard in {}; rank {}: {}",
                                     silentSeconds_, options_.timeoutSeconds, describeProgress(firstRank_), rank_,
                                     describeProgress(progress_.snapshot()))),
             0, rank_ == 1, 1});
    }
  }
}

void SocketChannel::handle(MessageReader message) {
  switch (message.type()) {
  case MessageType::Greeting: {
    uint64_t magic = message.number<uint64_t>();
    uint32_t wire = message.number<uint32_t>();
    const std::string serverNonce(message.text()), nonce = makeNonce();
    std::lock_guard lock(mutex_);
    if (magic != kWireMagic || wire != kWireVersion) {
      refused_ = {refusal(failedPrecondition(options_.place.text() + " answers, but not as this ztc-run does")), false};
      changed_.notify_all();
      break;
    }
    greeted_ = true;
    const std::string claim = claimOf(rank_, world_, options_.version);
    expected_ = proofOf(options_.secret, "rank 0", serverNonce, nonce, claim);
    send(MessageWriter(MessageType::Hello)
             .number(kWireMagic)
             .number(kWireVersion)
             .text(nonce)
             .number(rank_)
             .number(world_)
             .text(options_.version)
             .text(proofOf(options_.secret, "rank", serverNonce, nonce, claim))
             .take());
    break;
  }
  case MessageType::Refused: {
    bool mayTryAgain = message.number<uint8_t>() != 0;
    std::lock_guard lock(mutex_);
    refused_ = {refusal(failedPrecondition(std::string(message.text()))), mayTryAgain};
    changed_.notify_all();
    break;
  }
  case MessageType::Welcome: {
    std::lock_guard lock(mutex_);
    localAddress_ = message.text();
    welcomed_ = !expected_.empty() && isSameProof(message.text(), expected_);
    if (!welcomed_)
      refused_ = {refusal(failedPrecondition(options_.place.text() + " answers, but is not rank 0 of this run")), true};
    changed_.notify_all();
    break;
  }
  case MessageType::Result: {
    std::string name(message.text());
    message.number<uint64_t>(); // results of a name come in the order of its posts
    std::vector<Bytes> all(world_);
    for (Bytes &one : all)
      one = message.bytes();
    std::lock_guard lock(mutex_);
    exchanges_[name].results.push_back(std::move(all));
    changed_.notify_all();
    break;
  }
  case MessageType::Value: {
    uint64_t request = message.number<uint64_t>();
    std::lock_guard lock(mutex_);
    requests_[request] = message.bytes();
    changed_.notify_all();
    break;
  }
  case MessageType::Pulse: {
    std::lock_guard lock(mutex_);
    firstRank_ = message.progress();
    break;
  }
  case MessageType::Probe: {
    std::lock_guard lock(mutex_);
    probed_ = true;
    break;
  }
  case MessageType::Failure: {
    uint32_t rank = message.number<uint32_t>(), reporter = message.number<uint32_t>();
    auto code = StatusCode(message.number<uint32_t>());
    setFailure({Status(code, std::string(message.text())), rank, reporter == rank_, reporter});
    break;
  }
  case MessageType::AllDone: {
    std::lock_guard lock(mutex_);
    allDone_ = true;
    changed_.notify_all();
    break;
  }
  default:
    break;
  }
}

void SocketChannel::setFailure(RunFailure failure) {
  std::lock_guard calling(callbackMutex_);
  {
    std::lock_guard lock(mutex_);
    if (!failure_.status.isOk() || allDone_)
      return;
    failure_ = std::move(failure);
    changed_.notify_all();
  }
  if (auto callback = std::exchange(callback_, nullptr))
    callback(failure_.status);
}

void SocketChannel::loseServer() {
  {
    std::lock_guard lock(mutex_);
    if (allDone_ || refused_)
      return;
    if (!greeted_) { // not a rank of ours, or one that is just ending
      refused_ = {refusal(unavailable(options_.place.text() + " closed the connection")), true};
      changed_.notify_all();
      return;
    }
  }
  std::string text = "rank 0 is lost: its process has ended";
  if (welcomed_)
    text += fmt::format("; it was last heard in {}; rank {}: {}", describeProgress(firstRank_), rank_,
                        describeProgress(progress_.snapshot()));
  else
    text += " before all ranks were there";
  setFailure({unavailable(text), 0, rank_ == 1, 1});
}

Status SocketChannel::post(std::string_view exchange, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxExchangeBytes)
    return internalError(fmt::format("exchange {}: {} bytes, at most {}", exchange, bytes.size(), kMaxExchangeBytes));
  std::lock_guard lock(mutex_);
  ZTC_RETURN_IF_ERROR(failure_.status);
  Exchange &state = exchanges_[std::string(exchange)];
  send(MessageWriter(MessageType::Post).text(exchange).number(state.posted++).bytes(bytes).take());
  return Status::ok();
}

StatusOr<std::vector<Bytes>> SocketChannel::collect(std::string_view exchange) {
  std::unique_lock lock(mutex_);
  Exchange &state = exchanges_[std::string(exchange)];
  if (state.collected == state.posted)
    return internalError(fmt::format("exchange {}: nothing was posted", exchange));
  ++state.collected;
  ZTC_RETURN_IF_ERROR(wait(lock, std::string(exchange), [&] { return !state.results.empty(); }));
  std::vector<Bytes> all = std::move(state.results.front());
  state.results.pop_front();
  return all;
}

Status SocketChannel::set(std::string_view key, std::span<const std::byte> value) {
  if (value.size() > kMaxValueBytes)
    return internalError(fmt::format("key {}: {} bytes, at most {}", key, value.size(), kMaxValueBytes));
  std::lock_guard lock(mutex_);
  ZTC_RETURN_IF_ERROR(failure_.status);
  send(MessageWriter(MessageType::Set).text(key).bytes(value).take());
  return Status::ok();
}

StatusOr<Bytes> SocketChannel::get(std::string_view key) {
  std::unique_lock lock(mutex_);
  ZTC_RETURN_IF_ERROR(failure_.status);
  std::optional<Bytes> &answer = requests_[++lastRequest_];
  uint64_t request = lastRequest_;
  send(MessageWriter(MessageType::Get).number(request).text(key).take());
  Status status = wait(lock, "value of " + std::string(key), [&] { return answer.has_value(); });
  Bytes value = std::move(answer).value_or(Bytes());
  requests_.erase(request);
  ZTC_RETURN_IF_ERROR(status);
  return value;
}

RunFailure SocketChannel::fail(Status status) {
  std::unique_lock lock(mutex_);
  if (failure_.status.isOk()) {
    send(MessageWriter(MessageType::Failed).number(uint32_t(status.code())).text(status.message()).take());
    changed_.wait_for(lock, kVerdictWait, [&] { return !failure_.status.isOk(); });
  }
  if (failure_.status.isOk()) {
    lock.unlock();
    setFailure({std::move(status), rank_, true, rank_});
    lock.lock();
  }
  return failure_;
}

Status SocketChannel::finish() {
  std::unique_lock lock(mutex_);
  ZTC_RETURN_IF_ERROR(failure_.status);
  send(MessageWriter(MessageType::Bye).take());
  return wait(lock, "the end of the run", [&] { return allDone_; });
}

StatusOr<std::unique_ptr<SocketChannel>> serveRun(const JoinOptions &options) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return resourceExhausted(fmt::format("socketpair: {}", std::strerror(errno)));
  ServerOptions server{.world = options.world,
                       .secret = options.secret,
                       .version = options.version,
                       .timeoutSeconds = options.timeoutSeconds,
                       .joinSeconds = options.timeoutSeconds,
                       .place = options.place.port ? options.place.text() : std::string(),
                       .notice = options.notice};
  return std::make_unique<SocketChannel>(options, pair[0],
                                         ControlServer::start(std::move(server), options.listener, {pair[1]}));
}

} // namespace

JoinResult joinRun(JoinOptions options) {
  auto alone = [&](Status status) { return RunFailure{std::move(status), options.rank, true, options.rank}; };
  if (options.rank == 0) {
    if (options.listener < 0) {
      auto listener = listenAt(options.place, std::min(30.0, options.timeoutSeconds));
      if (!listener.isOk())
        return alone(listener.status());
      options.listener = *listener;
    }
    auto channel = serveRun(options);
    if (!channel.isOk())
      return alone(channel.status());
    Joined joined = (*channel)->awaitWelcome();
    if (!joined.failure.status.isOk())
      return joined.failure;
    return std::unique_ptr<ControlChannel>(std::move(*channel));
  }
  const double began = steadySeconds(), deadline = began + options.timeoutSeconds;
  double nextNotice = kNoticeSeconds;
  while (true) {
    Status last;
    auto socket = connectOnce(options.place);
    if (socket.isOk()) {
      auto channel = std::make_unique<SocketChannel>(options, *socket, nullptr);
      Joined joined = channel->awaitWelcome();
      if (joined.failure.status.isOk())
        return std::unique_ptr<ControlChannel>(std::move(channel));
      if (!joined.mayTryAgain)
        return joined.failure;
      last = joined.failure.status;
    } else {
      last = socket.status();
    }
    if (options.cancelled && options.cancelled())
      return alone(unavailable("stopped by a signal before rank 0 was reached"));
    if (last.code() == StatusCode::FailedPrecondition) // waiting does not help
      return alone(last);
    if (steadySeconds() - began >= nextNotice && options.notice) {
      nextNotice *= 2;
      options.notice(fmt::format("rank {} waits for rank 0 at {}: {}; it gives up after {:g} s (--timeout)",
                                 options.rank, options.place.text(), last.message(), options.timeoutSeconds));
    }
    if (steadySeconds() > deadline)
      return alone(unavailable(fmt::format("rank {} does not reach rank 0 at {} within {:g} s: {}", options.rank,
                                           options.place.text(), options.timeoutSeconds, last.message())));
    std::this_thread::sleep_for(kRetryWait);
  }
}

StatusOr<std::vector<std::unique_ptr<ControlChannel>>> createThreadChannels(uint32_t world, double timeoutSeconds) {
  std::vector<int> far(world), near(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      return resourceExhausted(fmt::format("socketpair: {}", std::strerror(errno)));
    near[rank] = pair[0];
    far[rank] = pair[1];
  }
  JoinOptions options{.world = world, .timeoutSeconds = timeoutSeconds};
  auto server =
      ControlServer::start({.world = world, .timeoutSeconds = timeoutSeconds, .joinSeconds = timeoutSeconds}, -1, far);
  std::vector<std::unique_ptr<SocketChannel>> made;
  for (options.rank = 0; options.rank < world; ++options.rank)
    made.push_back(std::make_unique<SocketChannel>(options, near[options.rank], std::move(server)));
  std::vector<std::unique_ptr<ControlChannel>> channels;
  for (auto &channel : made) {
    ZTC_RETURN_IF_ERROR(channel->awaitWelcome().failure.status);
    channels.push_back(std::move(channel));
  }
  return channels;
}

} // namespace ztc
