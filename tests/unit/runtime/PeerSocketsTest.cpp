// Connections between ranks while strangers call and while they break: each rank gets the others and nobody else.
#include "runtime/Collective/PeerSockets.h"
#include "runtime/Ranks/Sockets.h"
#include "tests/conformance/CommunicatorFactories.h"
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ztc {
namespace {

constexpr size_t kTokenBytes = 16; // before the address in the store

HostPort placeIn(const std::string &value) {
  return *parseHostPort(value.substr(kTokenBytes));
}

/// Ends a connection so that the other side gets a reset.
void reset(int descriptor) {
  const linger now{1, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(descriptor);
}

/// What every rank of a world gets from connectPeers, and whether the communicators made of it work.
std::vector<Status> connectAll(uint32_t world, const RendezvousStore &store, uint64_t timeoutMs = 20000) {
  std::vector<Status> ends(world);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < world; ++rank)
    ranks.emplace_back([&, rank] {
      GlooOptions options;
      options.rank = rank;
      options.world = world;
      options.address = "127.0.0.1";
      options.timeoutMs = timeoutMs;
      options.store = store;
      auto made = createGlooCommunicator(options);
      ends[rank] = made.status();
      if (!made.isOk())
        return;
      ends[rank] = (*made)->barrier({.label = "connected"});
      float shard[16] = {}, full[16 * 4] = {};
      std::fill(shard, shard + 16, float(rank + 1));
      if (ends[rank].isOk())
        ends[rank] = (*made)->allGather(reinterpret_cast<std::byte *>(shard), reinterpret_cast<std::byte *>(full), 16,
                                        plan::F32, {.label = "all"});
      for (uint32_t r = 0; r < world && ends[rank].isOk(); ++r)
        EXPECT_EQ(full[r * 16], float(r + 1));
      if (ends[rank].isOk())
        ends[rank] = (*made)->barrier({.label = "done"});
    });
  for (std::thread &rank : ranks)
    rank.join();
  return ends;
}

/// Calls an address again and again until it is destroyed: resets, garbage, silence, and tokens that are wrong.
class Strangers {
public:
  ~Strangers() {
    isOver_ = true;
    for (std::thread &thread : threads_)
      thread.join();
    for (int descriptor : idle_)
      close(descriptor);
  }
  void call(const HostPort &place) {
    std::lock_guard lock(mutex_);
    for (int kind = 0; kind < 4; ++kind)
      threads_.emplace_back([this, place, kind] {
        for (int i = 0; !isOver_ && i < 2000; ++i)
          callOnce(place, kind);
      });
  }

private:
  void callOnce(const HostPort &place, int kind) {
    auto made = connectOnce(place);
    if (!made.isOk())
      return std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++calls;
    std::string said = kind == 1 ? std::string(100, 'x') : kind == 3 ? std::string("\1\0\0\0", 4) : "";
    if (kind == 3)
      said += std::string(kTokenBytes, 't');
    (void)send(*made, said.data(), said.size(), MSG_NOSIGNAL);
    std::lock_guard lock(mutex_);
    if (kind == 2 && idle_.size() < 300)
      idle_.push_back(*made);
    else
      reset(*made);
  }
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<int> idle_;
  std::atomic<bool> isOver_{false};

public:
  std::atomic<int> calls{0};
};

TEST(PeerSockets, StrangersAtEveryPortDisturbNobody) {
  for (int round = 0; round < 5; ++round) {
    test::LocalStore local;
    RendezvousStore store = local.callbacks();
    Strangers strangers;
    const auto set = store.set;
    store.set = [&](const std::string &key, const std::string &value) {
      strangers.call(placeIn(value)); // they are there before any rank can be
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return set(key, value);
    };
    for (const Status &end : connectAll(3, store)) {
      if (end.code() == StatusCode::FailedPrecondition)
        GTEST_SKIP() << end.message();
      EXPECT_TRUE(end.isOk()) << end.message();
    }
    EXPECT_GT(strangers.calls, 4);
  }
}

/// Stands between a rank and those that call it: resets the first calls, at once or once the caller has spoken, and
/// hands on what comes later.
class BadCable {
public:
  BadCable(const HostPort &to, int bad) : to_(to), bad_(bad) {
    auto [listener, place] = *listenLocally();
    listener_ = listener;
    at = place;
    thread_ = std::thread([this] { run(); });
  }
  ~BadCable() {
    isOver_ = true;
    thread_.join();
    close(listener_);
  }
  HostPort at;

private:
  void run() {
    std::vector<std::pair<int, int>> pairs;
    for (int calls = 0; !isOver_;) {
      pollfd wait{listener_, POLLIN, 0};
      if (poll(&wait, 1, 1) == 1) {
        const int caller = accept(listener_, nullptr, nullptr);
        if (calls++ < bad_) {
          if (calls % 2 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(10)); // its bytes have come
          reset(caller);
        } else if (auto made = connectOnce(to_); made.isOk()) {
          fcntl(caller, F_SETFL, O_NONBLOCK);
          pairs.push_back({caller, *made});
        }
      }
      for (auto [one, other] : pairs)
        for (auto [from, to] : {std::pair(one, other), std::pair(other, one)}) {
          char bytes[4096];
          for (ssize_t count; (count = recv(from, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
            (void)send(to, bytes, size_t(count), MSG_NOSIGNAL);
        }
    }
    for (auto [one, other] : pairs) {
      close(one);
      close(other);
    }
  }
  HostPort to_;
  int bad_, listener_ = -1;
  std::atomic<bool> isOver_{false};
  std::thread thread_;
};

TEST(PeerSockets, AConnectionThatIsResetIsMadeAgain) {
  for (int bad : {1, 2, 7}) {
    test::LocalStore local;
    RendezvousStore store = local.callbacks();
    std::vector<std::unique_ptr<BadCable>> cables;
    std::mutex mutex;
    const auto set = store.set;
    store.set = [&](const std::string &key, const std::string &value) {
      std::lock_guard lock(mutex);
      cables.push_back(std::make_unique<BadCable>(placeIn(value), bad));
      return set(key, value.substr(0, kTokenBytes) + cables.back()->at.text());
    };
    for (const Status &end : connectAll(3, store)) {
      if (end.code() == StatusCode::FailedPrecondition)
        GTEST_SKIP() << end.message();
      EXPECT_TRUE(end.isOk()) << end.message();
    }
  }
}

TEST(PeerSockets, ARankThatNeverGetsThroughIsNamed) {
  test::LocalStore local;
  RendezvousStore store = local.callbacks();
  const auto set = store.set;
  auto [listener, place] = *listenLocally();
  close(listener); // nobody is there
  store.set = [&, at = place](const std::string &key, const std::string &value) {
    return set(key, value.substr(0, kTokenBytes) + at.text());
  };
  const std::vector<Status> ends = connectAll(2, store, 300);
  if (ends[0].code() == StatusCode::FailedPrecondition)
    GTEST_SKIP() << ends[0].message();
  EXPECT_THAT(ends[1].message(),
              testing::HasSubstr("rank 1 at 127.0.0.1 cannot connect with rank 0: Connection refused"));
  EXPECT_THAT(ends[0].message(), testing::HasSubstr("cannot connect with rank 1: nothing has come from it"));
}

} // namespace
} // namespace ztc
