// What reaches the port of rank 0 without being a rank of the run: it learns nothing and changes nothing.
#include "runtime/Ranks/SocketChannel.h"
#include "tests/unit/runtime/RankMessages.h"
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace ztc;
using testing::HasSubstr;
using testing::Not;

namespace {

/// One connection to rank 0 that speaks as it is told.
class Caller {
public:
  explicit Caller(const HostPort &place) : connection_(*connectOnce(place)) {}

  /// The next message, or nothing where none comes or the server closes.
  std::optional<std::string> hear() {
    bool isOpen = true;
    for (int i = 0; i < 100 && isOpen; ++i) {
      if (auto message = connection_.next())
        return std::string(*message);
      pollfd wait{connection_.descriptor(), POLLIN, 0};
      poll(&wait, 1, 50);
      isOpen = connection_.receive();
    }
    const auto last = connection_.next();
    return last ? std::optional(std::string(*last)) : std::nullopt;
  }

  /// Takes the greeting and says hello as `rank` of `world`, with the proof of `secret`.
  void hello(uint32_t rank, uint32_t world, const std::string &secret) {
    const std::string greeting = hear().value_or("");
    const ranks::Message message = parseMessage(greeting);
    ASSERT_TRUE(message.has_greeting());
    EXPECT_EQ(message.greeting().magic(), kWireMagic);
    EXPECT_EQ(message.greeting().version(), kWireVersion);
    connection_.send(helloMessage(rank, world, "1.0", secret, message.greeting().nonce(), makeNonce()));
    EXPECT_TRUE(connection_.flush());
  }

  /// As it stands.
  void say(const std::string &bytes) {
    connection_.sendRaw(bytes);
    (void)connection_.flush();
  }
  void say(const ranks::Message &message) {
    connection_.send(message);
    (void)connection_.flush();
  }

private:
  Connection connection_;
};

/// Rank 0 of `world`, waiting for the others.
struct Waiting {
  explicit Waiting(uint32_t world, double seconds = 20) {
    auto [listener, at] = *listenLocally();
    place = at;
    result = std::async(std::launch::async, [=, this] {
      return joinRun({.rank = 0,
                      .world = world,
                      .place = place,
                      .listener = listener,
                      .secret = "ours",
                      .version = "1.0",
                      .timeoutSeconds = seconds});
    });
  }
  HostPort place;
  std::future<JoinResult> result;
};

JoinOptions rankOne(const HostPort &place) {
  return {.rank = 1, .world = 2, .place = place, .secret = "ours", .version = "1.0", .timeoutSeconds = 20};
}

TEST(Strangers, AHelloWithoutTheSecretChangesNothing) {
  Waiting first(2);
  // Another world, the same rank, rank 0's own, a rank that there is not: each would end a run that believed it.
  for (auto [rank, world] : {std::pair(1u, 3u), {1u, 2u}, {0u, 2u}, {77u, 2u}})
    for (const char *secret : {"", "theirs"}) {
      Caller caller(first.place);
      caller.hello(rank, world, secret);
      const std::string answer = caller.hear().value_or("");
      EXPECT_TRUE(parseMessage(answer).has_refused());
      EXPECT_THAT(answer, HasSubstr("another run"));
      EXPECT_THAT(answer, Not(HasSubstr("ours")));
      EXPECT_FALSE(caller.hear());
    }
  JoinResult second = joinRun(rankOne(first.place));
  JoinResult result = first.result.get();
  ASSERT_EQ(result.index(), 0u) << std::get<RunFailure>(result).status.message();
  ASSERT_EQ(second.index(), 0u) << std::get<RunFailure>(second).status.message();
  std::thread other([&] { EXPECT_TRUE(std::get<0>(second)->finish().isOk()); });
  EXPECT_TRUE(std::get<0>(result)->finish().isOk());
  other.join();
}

TEST(Strangers, AProofIsGoodOnce) {
  Waiting first(2, 1);
  Caller caller(first.place);
  ASSERT_TRUE(caller.hear()); // its nonce is not looked at: the proof is of another greeting
  caller.say(helloMessage(1, 2, "1.0", "ours", std::string(16, 'n'), "nonce"));
  EXPECT_TRUE(parseMessage(caller.hear().value_or("")).has_refused());
  EXPECT_EQ(first.result.get().index(), 1u);
}

TEST(Strangers, ARankThatLeavesAsAnotherOneJoinsEndsTheRunWithItsName) {
  for (int i = 0; i < 20; ++i) {
    Waiting first(3);
    Caller stays(first.place);
    {
      Caller leaves(first.place);
      leaves.hello(1, 3, "ours");
    }
    stays.hello(2, 3, "ours");
    JoinResult result = first.result.get();
    const auto *failure = std::get_if<RunFailure>(&result);
    const Status status = failure ? failure->status : std::get<0>(result)->barrier("all");
    EXPECT_THAT(status.message(), HasSubstr("rank 1 is lost"));
  }
}

TEST(Strangers, AServerWithoutTheSecretIsNotRankZero) {
  auto [listener, place] = *listenLocally();
  // It welcomes everybody.
  auto server = std::async(std::launch::async, [listener = listener] {
    Connection connection(accept(listener, nullptr, nullptr));
    ranks::Message greeting, welcome;
    greeting.mutable_greeting()->set_magic(kWireMagic);
    greeting.mutable_greeting()->set_version(kWireVersion);
    greeting.mutable_greeting()->set_nonce(makeNonce());
    connection.send(greeting);
    welcome.mutable_welcome()->set_address("127.0.0.1");
    welcome.mutable_welcome()->set_proof(std::string(32, 'p'));
    connection.send(welcome);
    (void)connection.flush();
    pollfd wait{connection.descriptor(), POLLIN, 0};
    poll(&wait, 1, 5000);
    close(listener);
  });
  JoinOptions options = rankOne(place);
  options.timeoutSeconds = 0.5;
  JoinResult result = joinRun(options);
  ASSERT_EQ(result.index(), 1u);
  server.get();
}

TEST(Strangers, BytesOfAnyKindDoNotDisturb) {
  Waiting first(2);
  // With its length in front, as it goes over the socket.
  std::string hello = helloMessage(1, 2, "1.0", "theirs", "none", "none").SerializeAsString();
  hello.insert(0, {char(hello.size()), 0, 0, 0});
  std::vector<Caller> silent;
  for (int i = 0; i < 50; ++i)
    silent.emplace_back(first.place);
  uint32_t state = 1;
  for (int i = 0; i < 200; ++i) {
    std::string bytes = hello;
    for (int k = 0; k < 40; ++k) {
      state = state * 1664525u + 1013904223u;
      const size_t at = state >> 8 & 63;
      if (at < bytes.size())
        bytes[at] = char(state >> 24);
      else
        bytes.push_back(char(state >> 24));
    }
    Caller(first.place).say(bytes);
  }
  JoinResult second = joinRun(rankOne(first.place));
  JoinResult result = first.result.get();
  ASSERT_EQ(result.index(), 0u) << std::get<RunFailure>(result).status.message();
  ASSERT_EQ(second.index(), 0u);
  std::thread other([&] { EXPECT_TRUE(std::get<0>(second)->finish().isOk()); });
  EXPECT_TRUE(std::get<0>(result)->finish().isOk());
  other.join();
}

TEST(RunSecret, HmacOfTheStandard) { // RFC 4231, cases 2 and 6
  EXPECT_EQ(Sha256::hex(hmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Sha256::hex(hmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Sockets, ANameOfThisHostIsListenedAtWhereItLeadsAndNoWider) {
  const HostPort place{"localhost", uint16_t(31000 + getpid() % 1000)};
  auto made = listenAt(place, 0.1);
  ASSERT_TRUE(made.isOk()) << made.status().message();
  EXPECT_TRUE(isLoopback(nearAddress(*made))) << nearAddress(*made);
  close(*made);
}

} // namespace
