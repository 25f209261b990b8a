#include "runtime/Collective/PeerSockets.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/RunSecret.h"
#include "runtime/Ranks/Sockets.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ztc {

PeerSocket &PeerSocket::operator=(PeerSocket &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PeerSocket::~PeerSocket() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

int PeerSocket::release() {
  return std::exchange(descriptor_, -1);
}

namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kHelloBytes = 4 + kTokenBytes; ///< the caller's rank, and the token that it was given
constexpr char kSeen = 's';                     ///< the caller's last byte: it has seen the answer
/// Callers that have not shown a token yet; beyond these the one that has waited longest is closed.
constexpr size_t kMostCallers = 256, kAcceptedAtOnce = 64;
constexpr double kBetweenAttemptsSeconds = 0.02;

void setNonBlocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL, 0) | O_NONBLOCK);
}

/// Bytes that are expected, of which none too many are read: what follows is not ours.
class Expected {
public:
  explicit Expected(size_t bytes) : bytes_(bytes) {}
  bool isComplete() const { return text_.size() == bytes_; }
  const std::string &text() const { return text_; }
  void expectMore(size_t bytes) { bytes_ += bytes; }
  /// Reads what is there; false where the connection has ended.
  bool read(int descriptor) {
    while (!isComplete()) {
      char buffer[64];
      const ssize_t count = recv(descriptor, buffer, std::min(sizeof buffer, bytes_ - text_.size()), 0);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return true;
      if (count <= 0)
        return false;
      text_.append(buffer, size_t(count));
    }
    return true;
  }

private:
  size_t bytes_;
  std::string text_;
};

/// A few bytes to a connection that has just been made: they fit.
bool sendAll(int descriptor, std::string_view text) {
  return send(descriptor, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
}

/// Somebody who has connected with this rank's port.
struct Caller {
  PeerSocket socket;
  Expected said{kHelloBytes};
  int64_t rank = -1; ///< once it has shown its token
};

/// Another rank. Those below this one are called, those above it call.
struct Peer {
  std::string ownToken;   ///< which it shows
  std::string givenToken; ///< which this rank shows
  HostPort place;
  PeerSocket socket;
  bool isConnected = false;
  Expected answer{kTokenBytes};
  double nextAttempt = 0;
  std::string lastFailure = "nothing has come from it";
};

class PeerConnector {
public:
  explicit PeerConnector(const GlooOptions &options)
      : options_(options), prefix_(options.prefix.empty() ? "gloo" : options.prefix), peers_(options.world) {}

  StatusOr<std::vector<PeerSocket>> run() {
    const double deadline = steadySeconds() + double(options_.timeoutMs) / 1000;
    ZTC_RETURN_IF_ERROR(publish());
    ZTC_RETURN_IF_ERROR(findOthers());
    while (const Peer *missing = firstMissing()) {
      if (steadySeconds() > deadline)
        return unavailable(fmt::format("rank {} at {} cannot connect with rank {}: {}", options_.rank, options_.address,
                                       missing - peers_.data(), missing->lastFailure));
      callOthers();
      waitForEvents();
    }
    std::vector<PeerSocket> sockets;
    for (Peer &peer : peers_)
      sockets.push_back(std::move(peer.socket));
    return StatusOr<std::vector<PeerSocket>>(std::move(sockets));
  }

private:
  std::string key(uint32_t from, uint32_t to) const { return fmt::format("{}/{}/{}", prefix_, from, to); }
  bool isCalled(uint32_t peer) const { return peer < options_.rank; }

  template <typename Body> Status forEachPeer(Body &&body) {
    for (uint32_t peer = 0; peer < options_.world; ++peer)
      if (peer != options_.rank)
        ZTC_RETURN_IF_ERROR(body(peer));
    return Status::ok();
  }

  Status publish() {
    auto listening = listenOnFreePort(options_.address);
    if (!listening.isOk()) { // the others need not wait
      ZTC_RETURN_IF_ERROR(forEachPeer([&](uint32_t peer) { return options_.store.set(key(options_.rank, peer), ""); }));
      return unavailable(fmt::format("rank {} cannot listen at {}: {}", options_.rank, options_.address,
                                     listening.status().message()));
    }
    listener_ = PeerSocket(listening->first);
    setNonBlocking(listener_.descriptor());
    return forEachPeer([&](uint32_t peer) {
      peers_[peer].ownToken = makeNonce();
      return options_.store.set(key(options_.rank, peer), peers_[peer].ownToken + listening->second.text());
    });
  }

  Status findOthers() {
    return forEachPeer([&](uint32_t peer) -> Status {
      auto said = options_.store.wait(key(peer, options_.rank), options_.timeoutMs);
      if (!said.isOk())
        return said.status().withContext(fmt::format("rank {} waits for rank {}", options_.rank, peer));
      if (said->empty())
        return unavailable(fmt::format("rank {} cannot listen", peer));
      auto place = said->size() > kTokenBytes ? parseHostPort(said->substr(kTokenBytes))
                                              : StatusOr<HostPort>(invalidArgument("it is too short"));
      if (!place.isOk())
        return unavailable(fmt::format("the address of rank {}: {}", peer, place.status().message()));
      peers_[peer].givenToken = said->substr(0, kTokenBytes);
      peers_[peer].place = *place;
      return Status::ok();
    });
  }

  const Peer *firstMissing() const {
    for (uint32_t rank = 0; rank < options_.world; ++rank)
      if (rank != options_.rank && !peers_[rank].isConnected)
        return &peers_[rank];
    return nullptr;
  }

  void giveUpOn(Peer &peer, std::string why) {
    peer.socket = PeerSocket();
    peer.lastFailure = std::move(why);
    peer.nextAttempt = steadySeconds() + kBetweenAttemptsSeconds;
  }

  void callOthers() {
    for (uint32_t rank = 0; rank < options_.rank; ++rank) {
      Peer &peer = peers_[rank];
      if (peer.isConnected || peer.socket.isOpen() || steadySeconds() < peer.nextAttempt)
        continue;
      auto made = connectOnce(peer.place);
      if (!made.isOk()) {
        giveUpOn(peer, made.status().message());
        continue;
      }
      peer.socket = PeerSocket(*made);
      setNonBlocking(*made);
      peer.answer = Expected(kTokenBytes);
      std::string hello(4, '\0');
      std::memcpy(hello.data(), &options_.rank, 4);
      if (!sendAll(*made, hello + peer.givenToken))
        giveUpOn(peer, std::strerror(errno));
    }
  }

  void waitForEvents() {
    std::vector<pollfd> waits{{listener_.descriptor(), POLLIN, 0}};
    for (const Caller &caller : callers_)
      waits.push_back({caller.socket.descriptor(), POLLIN, 0});
    for (const Peer &peer : peers_)
      if (peer.socket.isOpen() && !peer.isConnected)
        waits.push_back({peer.socket.descriptor(), POLLIN, 0});
    poll(waits.data(), waits.size(), int(kBetweenAttemptsSeconds * 1000));
    for (uint32_t rank = 0; rank < options_.rank; ++rank)
      if (Peer &peer = peers_[rank]; peer.socket.isOpen() && !peer.isConnected)
        readAnswer(peer);
    for (Caller &caller : callers_)
      if (!hear(caller))
        caller.socket = PeerSocket();
    std::erase_if(callers_, [](const Caller &caller) { return !caller.socket.isOpen(); });
    acceptCallers();
  }

  void readAnswer(Peer &peer) {
    if (!peer.answer.read(peer.socket.descriptor()))
      return giveUpOn(peer, "the connection has ended");
    if (!peer.answer.isComplete())
      return;
    if (!isSameProof(peer.answer.text(), peer.ownToken))
      return giveUpOn(peer, fmt::format("another program answers at {}", peer.place.text()));
    if (!sendAll(peer.socket.descriptor(), std::string_view(&kSeen, 1)))
      return giveUpOn(peer, std::strerror(errno));
    peer.isConnected = true;
  }

  /// Some of those that wait, so that who is here already is heard while others keep coming.
  void acceptCallers() {
    for (size_t i = 0; i < kAcceptedAtOnce; ++i) {
      const int descriptor = accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor < 0 && (errno == EINTR || errno == ECONNABORTED))
        continue;
      if (descriptor < 0)
        return;
      Caller caller{.socket = PeerSocket(descriptor)};
      if (!hear(caller) || !caller.socket.isOpen()) // a rank has spoken before it is accepted
        continue;
      callers_.push_back(std::move(caller));
      const auto oldest = std::ranges::find_if(callers_, [](const Caller &each) { return each.rank < 0; });
      if (callers_.size() > kMostCallers && oldest != callers_.end())
        callers_.erase(oldest);
    }
  }

  /// False where the caller is to be closed. A rank whose connection has broken calls again with the same token.
  bool hear(Caller &caller) {
    if (!caller.said.read(caller.socket.descriptor()))
      return false;
    if (!caller.said.isComplete())
      return true;
    if (caller.rank < 0) {
      uint32_t rank = 0;
      std::memcpy(&rank, caller.said.text().data(), 4);
      if (rank <= options_.rank || rank >= options_.world || peers_[rank].isConnected ||
          !isSameProof(std::string_view(caller.said.text()).substr(4), peers_[rank].ownToken) ||
          !sendAll(caller.socket.descriptor(), peers_[rank].givenToken))
        return false;
      caller.rank = rank;
      caller.said.expectMore(1);
      return hear(caller);
    }
    Peer &peer = peers_[size_t(caller.rank)];
    if (caller.said.text().back() != kSeen || peer.isConnected)
      return false;
    peer.socket = std::move(caller.socket);
    peer.isConnected = true;
    return true;
  }

  const GlooOptions &options_;
  const std::string prefix_;
  std::vector<Peer> peers_; ///< by rank; this rank's own is not used
  PeerSocket listener_;
  std::vector<Caller> callers_;
};

} // namespace

StatusOr<std::vector<PeerSocket>> connectPeers(const GlooOptions &options) {
  return PeerConnector(options).run();
}

} // namespace ztc
