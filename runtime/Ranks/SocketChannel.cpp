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
constexpr double kRefusalSeconds = 3;
constexpr auto kRetryWait = std::chrono::milliseconds(100);
/// The person hears what is awaited after so long, and then after twice, four times, ... as long.
constexpr double kNoticeSeconds = 10;

/// What a rank says of itself, as its Hello has it.
std::string claimOf(uint32_t rank, uint32_t world, const std::string &version) {
  ranks::Claim claim;
  claim.set_rank(rank);
  claim.set_world(world);
  claim.set_version(version);
  return claim.SerializeAsString();
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
  void handle(const ranks::Message &message);
  void greet(const ranks::Greeting &greeting);
  void setFailure(RunFailure failure);
  void loseServer();
  void wake() {
    uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
  }
  /// With mutex_ held.
  void send(ranks::Message message) {
    out_.push_back(std::move(message));
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
  std::vector<ranks::Message> out_;
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
      for (const ranks::Message &message : std::exchange(out_, {}))
        connection_.send(message);
    }
    if (report) {
      lastReport = now;
      ranks::Message message;
      *message.mutable_report() = progressMessage(progress_.snapshot());
      connection_.send(message);
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
        handle(parseMessage(*message));
      if (!alive || connection_.isBroken()) {
        open = false;
        loseServer();
      }
    } else if (open) {
      silentSeconds_ += passed;
      // Rank 0 says who is missing when its own time is over: it is given a little longer.
      if (!welcomed_ && silentSeconds_ >= options_.timeoutSeconds + kRefusalSeconds)
        setFailure({unavailable(fmt::format("rank {}: {} takes connections, but rank 0 has not spoken there for "
                                            "{:.0f} s: another program may have that port (choose another with "
                                            "--rendezvous or MASTER_PORT), or rank 0 is stopped",
                                            rank_, options_.place.text(), silentSeconds_)),
                    0, true, rank_});
      else if (welcomed_ && silentSeconds_ >= options_.timeoutSeconds)
        setFailure(
            {unavailable(fmt::format("rank 0 was not heard for {:.0f} s: its process is stopped or its host cannot "
                                     "be reached (--timeout={:g}); it was last heard in {}; rank {}: {}",
                                     silentSeconds_, options_.timeoutSeconds, describeProgress(firstRank_), rank_,
                                     describeProgress(progress_.snapshot()))),
             0, rank_ == 1, 1});
    }
  }
}

void SocketChannel::greet(const ranks::Greeting &greeting) {
  const std::string nonce = makeNonce(), claim = claimOf(rank_, world_, options_.version);
  std::lock_guard lock(mutex_);
  if (greeting.magic() != kWireMagic || greeting.version() != kWireVersion) {
    refused_ = {refusal(failedPrecondition(options_.place.text() + " answers, but not as this ztc-run does")), false};
    changed_.notify_all();
    return;
  }
  greeted_ = true;
  expected_ = proofOf(options_.secret, "rank 0", greeting.nonce(), nonce, claim);
  ranks::Message message;
  ranks::Hello &hello = *message.mutable_hello();
  hello.set_magic(kWireMagic);
  hello.set_version(kWireVersion);
  hello.set_nonce(nonce);
  hello.set_claim(claim);
  hello.set_proof(proofOf(options_.secret, "rank", greeting.nonce(), nonce, claim));
  send(std::move(message));
}

static Bytes bytesOf(const std::string &value) {
  const auto *data = reinterpret_cast<const std::byte *>(value.data());
  return {data, data + value.size()};
}

void SocketChannel::handle(const ranks::Message &message) {
  switch (message.kind_case()) {
  case ranks::Message::kGreeting:
    greet(message.greeting());
    break;
  case ranks::Message::kRefused: {
    std::lock_guard lock(mutex_);
    refused_ = {refusal(failedPrecondition(message.refused().text())), message.refused().may_try_again()};
    changed_.notify_all();
    break;
  }
  case ranks::Message::kWelcome: {
    std::lock_guard lock(mutex_);
    localAddress_ = message.welcome().address();
    welcomed_ = !expected_.empty() && isSameProof(message.welcome().proof(), expected_);
    if (!welcomed_)
      refused_ = {refusal(failedPrecondition(options_.place.text() + " answers, but is not rank 0 of this run")), true};
    changed_.notify_all();
    break;
  }
  case ranks::Message::kResult: { // results of a name come in the order of its posts
    std::vector<Bytes> all(world_);
    for (int rank = 0; rank < std::min(int(world_), message.result().values_size()); ++rank)
      all[size_t(rank)] = bytesOf(message.result().values(rank));
    std::lock_guard lock(mutex_);
    exchanges_[message.result().exchange()].results.push_back(std::move(all));
    changed_.notify_all();
    break;
  }
  case ranks::Message::kValue: {
    std::lock_guard lock(mutex_);
    requests_[message.value().request()] = bytesOf(message.value().value());
    changed_.notify_all();
    break;
  }
  case ranks::Message::kPulse: {
    std::lock_guard lock(mutex_);
    firstRank_ = readProgress(message.pulse());
    break;
  }
  case ranks::Message::kProbe: {
    std::lock_guard lock(mutex_);
    probed_ = true;
    break;
  }
  case ranks::Message::kFailure: {
    const ranks::Failure &failure = message.failure();
    setFailure({Status(StatusCode(failure.code()), failure.text()), failure.rank(), failure.reporter() == rank_,
                failure.reporter()});
    break;
  }
  case ranks::Message::kAllDone: {
    std::lock_guard lock(mutex_);
    allDone_ = true;
    changed_.notify_all();
    break;
  }
  default: {
    std::lock_guard lock(mutex_);
    if (!greeted_) { // somebody else listens there
      refused_ = {refusal(failedPrecondition(options_.place.text() + " answers, but not as this ztc-run does")), false};
      changed_.notify_all();
    }
  }
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
  ranks::Message message;
  ranks::Post &posted = *message.mutable_post();
  posted.set_exchange(std::string(exchange));
  posted.set_number(state.posted++);
  posted.set_value(bytes.data(), bytes.size());
  send(std::move(message));
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
  ranks::Message message;
  message.mutable_set()->set_key(std::string(key));
  message.mutable_set()->set_value(value.data(), value.size());
  send(std::move(message));
  return Status::ok();
}

StatusOr<Bytes> SocketChannel::get(std::string_view key) {
  std::unique_lock lock(mutex_);
  ZTC_RETURN_IF_ERROR(failure_.status);
  std::optional<Bytes> &answer = requests_[++lastRequest_];
  uint64_t request = lastRequest_;
  ranks::Message message;
  message.mutable_get()->set_request(request);
  message.mutable_get()->set_key(std::string(key));
  send(std::move(message));
  Status status = wait(lock, "value of " + std::string(key), [&] { return answer.has_value(); });
  Bytes value = std::move(answer).value_or(Bytes());
  requests_.erase(request);
  ZTC_RETURN_IF_ERROR(status);
  return value;
}

RunFailure SocketChannel::fail(Status status) {
  std::unique_lock lock(mutex_);
  if (failure_.status.isOk()) {
    ranks::Message message;
    message.mutable_failed()->set_code(uint32_t(status.code()));
    message.mutable_failed()->set_text(status.message());
    send(std::move(message));
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
  ranks::Message message;
  message.mutable_bye();
  send(std::move(message));
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
