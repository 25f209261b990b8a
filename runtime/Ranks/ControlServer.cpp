#include "runtime/Ranks/ControlServer.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/RunSecret.h"
#include "runtime/Ranks/Sockets.h"
#include "runtime/Ranks/Watchdog.h"
#include "runtime/Ranks/Wire.h"
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <list>
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

constexpr double kTickSeconds = 0.2;
/// A broken connection between two ranks is seen by the one before the death of the other: so long a failure that may
/// be a mere symptom waits for its cause.
constexpr double kCauseSeconds = 1.0;
/// The survivors' answer to "where are you?" is awaited so long.
constexpr double kProbeSeconds = 0.3;
/// Who has not proved by then that it is a rank is none.
constexpr double kHelloSeconds = 60;
/// The person hears who is awaited after so long, and then after twice, four times, ... as long.
constexpr double kNoticeSeconds = 10;
constexpr size_t kMessageBytes = kMaxValueBytes + 4096;

struct Peer {
  explicit Peer(int descriptor) : connection(descriptor) {}
  Connection connection;
  const std::string nonce = makeNonce(); ///< of its greeting
  const double since = steadySeconds();
  std::string welcome;          ///< what proves to it that this is rank 0 of its run
  std::optional<uint32_t> rank; ///< known after its Hello
  bool said = false;            ///< Bye
  bool answered = false;        ///< the probe
  bool closing = false;         ///< what is left to send goes out, then it is closed
};

/// One exchange under way.
struct Exchange {
  std::vector<std::string> values;
  std::vector<bool> given;
  uint32_t missing = 0;
};

ranks::Message valueMessage(uint64_t request, const std::string &value) {
  ranks::Message message;
  message.mutable_value()->set_request(request);
  message.mutable_value()->set_value(value);
  return message;
}

/// "rank 1: ..." or "step 4: rank 1: ...".
bool namesRank(std::string_view text) {
  for (size_t at = 0; (at = text.find("rank ", at)) != text.npos; at += 5) {
    if (at != 0 && !text.substr(0, at).ends_with(": "))
      continue;
    size_t end = text.find_first_not_of("0123456789", at + 5);
    if (end != text.npos && end > at + 5 && text[end] == ':')
      return true;
  }
  return false;
}

class Server final : public ControlServer {
public:
  Server(ServerOptions options, int listener, const std::vector<int> &sockets)
      : options_(std::move(options)), listener_(listener), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        watchdog_(options_.world, options_.timeoutSeconds), byRank_(options_.world, nullptr) {
    for (int socket : sockets)
      greet(socket);
    thread_ = std::thread([this] { serve(); });
  }

  ~Server() override {
    stop_ = true;
    uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
    thread_.join();
    close(wake_);
    if (listener_ >= 0)
      close(listener_);
  }

  std::vector<RankState> states() const override {
    std::lock_guard lock(mutex_);
    return watchdog_.states();
  }

private:
  void serve();
  void greet(int socket);
  void acceptAll();
  void hear(Peer &peer);
  void handle(Peer &peer, const ranks::Message &message);
  void welcome(Peer &peer, const ranks::Hello &hello);
  void welcomeAll();
  void give(uint32_t rank, const ranks::Post &post);
  void lose(Peer &peer);
  void tick(double now);
  uint32_t joined() const {
    return uint32_t(std::ranges::count_if(byRank_, [](const Peer *peer) { return peer != nullptr; }));
  }
  std::string missingRanks() const;
  void awaitRanks(double waited);
  void say(const ranks::Message &message);
  void refuse(Peer &peer, bool mayTryAgain, const std::string &text);
  /// Why a failure is told by whom and when.
  enum class Kind {
    Error,   ///< a rank met an error: it tells the person, soon
    Symptom, ///< a rank met an error that may come from the loss of another: it tells, unless that loss is found
    Loss,    ///< a rank is gone: the first survivor tells, with the places of all survivors
    Verdict, ///< found by this server: the first rank tells
  };
  void cause(Kind kind, uint32_t rank, StatusCode code, std::string text);
  void decide();

  /// A failure that waits for its cause, or for the answers of the others.
  struct Pending {
    uint32_t rank;
    StatusCode code;
    std::string text;
    Kind kind;
    double decideAt;
  };

  ServerOptions options_;
  int listener_;
  int wake_;
  mutable std::mutex mutex_; ///< guards watchdog_, which states() reads
  Watchdog watchdog_;
  ObservedClock clock_;
  std::list<Peer> peers_;
  std::vector<Peer *> byRank_;
  uint32_t left_ = 0;
  double nextNotice_ = kNoticeSeconds;
  bool complete_ = false; ///< every rank is there and was welcomed
  bool decided_ = false;  ///< a failure was told to all
  std::optional<Pending> pending_;
  double began_ = steadySeconds();
  std::map<std::pair<std::string, uint64_t>, Exchange> exchanges_;
  std::map<std::string, std::string> values_;
  std::multimap<std::string, std::pair<uint32_t, uint64_t>> waiting_; ///< key -> rank and request
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void Server::serve() {
  std::vector<pollfd> wait;
  std::vector<Peer *> order;
  while (!stop_) {
    wait.assign({{wake_, POLLIN, 0}, {listener_, POLLIN, 0}});
    order.clear();
    for (Peer &peer : peers_) {
      wait.push_back({peer.connection.descriptor(), short(POLLIN | (peer.connection.wantsToWrite() ? POLLOUT : 0)), 0});
      order.push_back(&peer);
    }
    poll(wait.data(), nfds_t(wait.size()), int(kTickSeconds * 1000));
    if (stop_)
      break;
    for (size_t i = 0; i < order.size(); ++i)
      if (wait[i + 2].revents & (POLLIN | POLLHUP | POLLERR))
        hear(*order[i]);
    if (wait[1].revents & POLLIN)
      acceptAll();
    tick(steadySeconds());
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      bool alive = peer->connection.flush();
      if (!alive && !peer->closing)
        lose(*peer);
      bool done = !alive || (peer->closing && !peer->connection.wantsToWrite());
      peer = done ? peers_.erase(peer) : std::next(peer);
    }
  }
  // A rank that ends lets the last words out.
  for (Peer &peer : peers_)
    peer.connection.flush();
  peers_.clear();
}

void Server::greet(int socket) {
  Peer &peer = peers_.emplace_back(socket);
  ranks::Message message;
  ranks::Greeting &greeting = *message.mutable_greeting();
  greeting.set_magic(kWireMagic);
  greeting.set_version(kWireVersion);
  greeting.set_nonce(peer.nonce);
  peer.connection.send(message);
}

void Server::acceptAll() {
  int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0)
    greet(socket);
}

void Server::hear(Peer &peer) {
  if (peer.closing)
    return;
  bool alive = peer.connection.receive();
  while (auto message = peer.connection.next()) {
    handle(peer, parseMessage(*message));
    if (peer.closing)
      return;
  }
  if (!alive || peer.connection.isBroken())
    lose(peer);
}

void Server::refuse(Peer &peer, bool mayTryAgain, const std::string &text) {
  ranks::Message message;
  message.mutable_refused()->set_may_try_again(mayTryAgain);
  message.mutable_refused()->set_text(text);
  peer.connection.send(message);
  peer.closing = true;
}

void Server::welcome(Peer &peer, const ranks::Hello &hello) {
  if (hello.magic() != kWireMagic || hello.version() != kWireVersion)
    return refuse(peer, false, "rank 0 runs another version of ztc-run");
  // Before anything that it says is believed, or answered: a stranger learns nothing and changes nothing.
  ranks::Claim claim;
  if (!isSameProof(hello.proof(), proofOf(options_.secret, "rank", peer.nonce, hello.nonce(), hello.claim())) ||
      !claim.ParseFromString(hello.claim()))
    return refuse(peer, true, "rank 0 there belongs to another run, or has another plan or ZTC_RUN_SECRET");
  const uint32_t rank = claim.rank(), world = claim.world();
  const std::string &version = claim.version();
  peer.welcome = proofOf(options_.secret, "rank 0", peer.nonce, hello.nonce(), hello.claim());
  if (decided_) // too late: what happened is told to it too
    return refuse(peer, false, pending_->text);
  if (complete_) // whatever is wrong with it, the run goes on
    return refuse(peer, false,
                  fmt::format("the run at rank 0 has all of its {} ranks and is under way; for another one beside it "
                              "choose another port with --rendezvous",
                              options_.world));
  std::string wrong;
  if (world != options_.world)
    wrong = fmt::format("rank 0 expects {} ranks, rank {} expects {}: start all with the same number", options_.world,
                        rank, world);
  else if (rank >= world)
    wrong = fmt::format("rank {} of {} ranks: ranks count from 0", rank, world);
  else if (byRank_[rank])
    wrong =
        fmt::format("rank {} is there twice, from {} and from {}: give each process a rank of its own "
                    "(--node-rank, or the launcher's variables)",
                    rank, farAddress(byRank_[rank]->connection.descriptor()), farAddress(peer.connection.descriptor()));
  else if (version != options_.version)
    wrong = fmt::format("rank 0 runs ztc {}, rank {} runs ztc {}: install the same on all hosts", options_.version,
                        rank, version);
  if (!wrong.empty()) {
    refuse(peer, false, wrong);
    return cause(Kind::Verdict, rank, StatusCode::FailedPrecondition, wrong);
  }
  peer.rank = rank;
  peer.connection.setLimit(kMessageBytes);
  byRank_[rank] = &peer;
  // Not where one that was there has left again: that ends the run.
  if (joined() == options_.world && !pending_)
    welcomeAll();
}

void Server::welcomeAll() {
  complete_ = true;
  // Ranks beside rank 0 come over loopback: ranks on other hosts reach them where they reach rank 0.
  std::string own = "127.0.0.1";
  for (Peer *peer : byRank_)
    if (std::string near = nearAddress(peer->connection.descriptor());
        !near.empty() && (own == "127.0.0.1" || isLoopback(own)))
      own = near;
  for (uint32_t rank = 0; rank < options_.world; ++rank) {
    Connection &connection = byRank_[rank]->connection;
    std::string far = farAddress(connection.descriptor());
    ranks::Message message;
    message.mutable_welcome()->set_address(far.empty() || isLoopback(far) ? own : far);
    message.mutable_welcome()->set_proof(byRank_[rank]->welcome);
    connection.send(message);
  }
}

void Server::give(uint32_t rank, const ranks::Post &post) {
  auto [found, isNew] = exchanges_.try_emplace({post.exchange(), post.number()});
  Exchange &exchange = found->second;
  if (isNew) {
    exchange.values.resize(options_.world);
    exchange.given.resize(options_.world);
    exchange.missing = options_.world;
  }
  if (exchange.given[rank])
    return;
  exchange.given[rank] = true;
  exchange.values[rank] = post.value();
  if (--exchange.missing)
    return;
  ranks::Message message;
  ranks::Result &result = *message.mutable_result();
  result.set_exchange(post.exchange());
  result.set_number(post.number());
  for (std::string &value : exchange.values)
    result.add_values(std::move(value));
  say(message);
  exchanges_.erase(found);
}

void Server::handle(Peer &peer, const ranks::Message &message) {
  if (!peer.rank) {
    if (message.has_hello())
      welcome(peer, message.hello());
    else
      refuse(peer, false, "expected a rank of ztc-run");
    return;
  }
  uint32_t rank = *peer.rank;
  switch (message.kind_case()) {
  case ranks::Message::kPost:
    give(rank, message.post());
    break;
  case ranks::Message::kSet: {
    const std::string &key = message.set().key();
    const std::string &value = values_[key] = message.set().value();
    auto [first, last] = waiting_.equal_range(key);
    for (auto i = first; i != last; ++i)
      if (Peer *asks = byRank_[i->second.first])
        asks->connection.send(valueMessage(i->second.second, value));
    waiting_.erase(first, last);
    break;
  }
  case ranks::Message::kGet: {
    const std::string &key = message.get().key();
    if (auto value = values_.find(key); value != values_.end())
      peer.connection.send(valueMessage(message.get().request(), value->second));
    else
      waiting_.emplace(key, std::pair(rank, message.get().request()));
    break;
  }
  case ranks::Message::kReport: {
    std::lock_guard lock(mutex_);
    watchdog_.report(rank, readProgress(message.report()));
    peer.answered = true;
    if (rank == 0) {
      ranks::Message pulse;
      *pulse.mutable_pulse() = progressMessage(watchdog_.states()[0].progress);
      say(pulse);
    }
    break;
  }
  case ranks::Message::kFailed: {
    auto code = StatusCode(message.failed().code());
    const std::string &text = message.failed().text();
    // What all ranks agreed on names its rank already; each of them says it, and the first tells the person.
    if (namesRank(text))
      cause(Kind::Verdict, rank, code, text);
    else
      cause(code == StatusCode::Unavailable ? Kind::Symptom : Kind::Error, rank, code,
            fmt::format("rank {}: {}", rank, text));
    break;
  }
  case ranks::Message::kBye: {
    peer.said = true;
    std::lock_guard lock(mutex_);
    watchdog_.leave(rank);
    if (++left_ == options_.world) {
      ranks::Message done;
      done.mutable_all_done();
      say(done);
    }
    break;
  }
  default:
    break;
  }
}

void Server::lose(Peer &peer) {
  peer.closing = true;
  if (!peer.rank)
    return;
  uint32_t rank = *peer.rank;
  byRank_[rank] = nullptr;
  std::unique_lock lock(mutex_);
  bool left = left_ == options_.world;
  std::string place = describeProgress(watchdog_.states()[rank].progress);
  watchdog_.leave(rank);
  lock.unlock();
  if (left)
    return;
  std::string text = complete_
                         ? fmt::format("rank {} is lost: its process has ended; it was last heard in {}", rank, place)
                         : fmt::format("rank {} is lost: its process has ended before all ranks were there", rank);
  cause(complete_ ? Kind::Loss : Kind::Verdict, rank, StatusCode::Unavailable, text);
}

void Server::cause(Kind kind, uint32_t rank, StatusCode code, std::string text) {
  if (decided_ || (pending_ && (pending_->kind != Kind::Symptom || kind == Kind::Symptom)))
    return;
  double wait = kind == Kind::Symptom ? kCauseSeconds : kind == Kind::Loss ? kProbeSeconds : 0;
  pending_ = {rank, code, std::move(text), kind, steadySeconds() + wait};
  if (wait == 0)
    return;
  for (Peer &peer : peers_)
    peer.answered = !peer.rank || peer.closing;
  ranks::Message probe;
  probe.mutable_probe();
  say(probe);
}

void Server::decide() {
  decided_ = true;
  if (pending_->kind == Kind::Loss) {
    std::lock_guard lock(mutex_);
    pending_->text += "; the others:" + describeRanks(watchdog_.states(), watchdog_.gone());
  }
  bool tellsItself = pending_->kind == Kind::Error || pending_->kind == Kind::Symptom;
  uint32_t reporter = tellsItself && byRank_[pending_->rank] ? pending_->rank : 0;
  while (reporter + 1 < options_.world && !byRank_[reporter])
    ++reporter;
  ranks::Message message;
  ranks::Failure &failure = *message.mutable_failure();
  failure.set_rank(pending_->rank);
  failure.set_reporter(reporter);
  failure.set_code(uint32_t(pending_->code));
  failure.set_text(pending_->text);
  say(message);
}

std::string Server::missingRanks() const {
  std::string missing;
  for (uint32_t rank = 0; rank < options_.world; ++rank)
    if (!byRank_[rank] && missing.size() < 60)
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  return missing;
}

/// Not all are there yet.
void Server::awaitRanks(double waited) {
  if (waited > options_.joinSeconds)
    return cause(Kind::Verdict, 0, StatusCode::Unavailable,
                 fmt::format("after {:.0f} s {} of {} ranks are here, missing: rank {}; start them with the same plan, "
                             "and see that their hosts reach rank 0",
                             options_.joinSeconds, joined(), options_.world, missingRanks()));
  if (waited < nextNotice_ || !options_.notice)
    return;
  nextNotice_ *= 2;
  options_.notice(fmt::format("rank 0 waits for rank {}{}; it gives up after {:.0f} s (--timeout)", missingRanks(),
                              options_.place.empty() ? "" : " at " + options_.place, options_.joinSeconds));
}

void Server::tick(double now) {
  double passed = clock_.advance(now);
  if (!complete_ && !decided_ && !pending_)
    awaitRanks(now - began_);
  // Each takes a descriptor.
  for (Peer &peer : peers_)
    peer.closing |= !peer.rank && now - peer.since > kHelloSeconds;
  std::optional<Hang> hang;
  std::optional<std::string> straggler;
  if (complete_) {
    std::lock_guard lock(mutex_);
    watchdog_.advance(passed);
    if (!decided_ && !pending_) {
      hang = watchdog_.check();
      straggler = watchdog_.takeStraggler();
    }
  }
  if (straggler && options_.notice)
    options_.notice(*straggler);
  if (hang)
    cause(Kind::Verdict, hang->rank, StatusCode::Unavailable, hang->message);
  if (pending_ && !decided_) {
    bool all = pending_->kind == Kind::Loss &&
               std::all_of(peers_.begin(), peers_.end(), [](const Peer &peer) { return peer.answered; });
    if (all || now >= pending_->decideAt)
      decide();
  }
}

void Server::say(const ranks::Message &message) {
  for (Peer *peer : byRank_)
    if (peer)
      peer->connection.send(message);
}

} // namespace

std::unique_ptr<ControlServer> ControlServer::start(ServerOptions options, int listener,
                                                    const std::vector<int> &sockets) {
  return std::make_unique<Server>(std::move(options), listener, sockets);
}

} // namespace ztc
