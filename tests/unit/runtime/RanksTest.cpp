// Several ranks: exchanges, lost and hanging ranks, refusals. Ranks are threads here, over local sockets or TCP.
#include "runtime/Ranks/SocketChannel.h"
#include "runtime/Ranks/ThreadChannels.h"
#include "runtime/Ranks/Watchdog.h"
#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace ztc;
using testing::HasSubstr;
using testing::Not;

namespace {

using Channels = std::vector<std::unique_ptr<ControlChannel>>;

Channels channelsOf(uint32_t world, double timeoutSeconds = 300) {
  auto made = createThreadChannels(world, timeoutSeconds);
  EXPECT_TRUE(made.isOk()) << made.status().message();
  return std::move(*made);
}

/// Runs `body` once per rank, each on its own thread.
void onAll(Channels &channels, const std::function<void(ControlChannel &)> &body) {
  std::vector<std::thread> threads;
  for (auto &channel : channels)
    if (channel)
      threads.emplace_back([&body, &channel] { body(*channel); });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Ranks, ExchangesMeetByNameAndNumber) {
  Channels channels = channelsOf(3);
  onAll(channels, [](ControlChannel &c) {
    // Two of one name are under way while another name is exchanged.
    ASSERT_TRUE(c.post("counts", bytesOf(uint64_t(c.rank()))).isOk());
    ASSERT_TRUE(c.post("counts", bytesOf(uint64_t(c.rank() + 10))).isOk());
    EXPECT_EQ(*allGatherValue(c, "other", c.rank() * 0.5), (std::vector<double>{0, 0.5, 1}));
    EXPECT_EQ(*collectValues<uint64_t>(c, "counts"), (std::vector<uint64_t>{0, 1, 2}));
    EXPECT_EQ(*collectValues<uint64_t>(c, "counts"), (std::vector<uint64_t>{10, 11, 12}));
    Bytes mine(c.rank() + 1, std::byte(c.rank()));
    auto sized = c.allGather("sizes may differ", mine);
    ASSERT_TRUE(sized.isOk());
    EXPECT_EQ((*sized)[2], Bytes(3, std::byte(2)));
    EXPECT_EQ(*c.broadcast("from the first", mine), Bytes(1, std::byte(0)));
    EXPECT_EQ(c.localAddress(), "127.0.0.1");
    EXPECT_EQ(c.states().size(), c.rank() == 0 ? 3u : 0u);
    EXPECT_FALSE(c.post("large", Bytes(kMaxExchangeBytes + 1)).isOk());
    EXPECT_TRUE(c.finish().isOk());
  });
}

TEST(Ranks, AValueIsAwaited) {
  Channels channels = channelsOf(3);
  const Bytes value(1000, std::byte(7));
  std::atomic<int> got{0};
  std::thread reader([&] {
    EXPECT_EQ(*channels[2]->get("address"), value);
    ++got;
  });
  ASSERT_TRUE(channels[1]->set("other", value).isOk());
  EXPECT_EQ(*channels[0]->get("other"), value);
  EXPECT_EQ(got, 0);
  ASSERT_TRUE(channels[1]->set("address", value).isOk());
  reader.join();
  EXPECT_EQ(*channels[0]->get("address"), value);
}

/// Every rank stands in step 12, in a collective; the rank `lost` goes away while the others wait.
void loseOne(uint32_t lost) {
  std::atomic<int> called{0}, reports{0};
  Channels channels = channelsOf(3);
  for (auto &channel : channels) {
    channel->progress().enterPhase("training");
    channel->progress().enterStep(12);
    channel->progress().beginPlanStep("microstep", "block 3");
    channel->progress().beginCollective(channel->rank() == lost ? "all_gather block 4" : "all_gather block 3");
    channel->onFailure([&](const Status &) { ++called; });
  }
  // All have reported where they are.
  onAll(channels, [](ControlChannel &c) { EXPECT_TRUE(c.barrier("ready").isOk()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    channels[lost].reset();
  });
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank)
    if (rank != lost)
      threads.emplace_back([&, rank] {
        ControlChannel &c = *channels[rank];
        Status status = c.barrier("counts");
        EXPECT_EQ(status.code(), StatusCode::Unavailable);
        EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(lost) + " is lost"));
        EXPECT_THAT(status.message(), HasSubstr("step 12, microstep, 'block 3', in all_gather block 4"));
        EXPECT_THAT(status.message(), HasSubstr("in all_gather block 3"));
        RunFailure failure = c.fail(status);
        EXPECT_EQ(failure.rank, lost);
        EXPECT_EQ(failure.status.message(), status.message());
        reports += failure.reportHere;
        EXPECT_FALSE(c.post("more", {}).isOk());
        EXPECT_FALSE(c.get("key").isOk());
        EXPECT_FALSE(c.finish().isOk());
      });
  for (std::thread &thread : threads)
    thread.join();
  killer.join();
  channels.clear(); // a callback may come after those who waited have gone on
  EXPECT_EQ(called, 2);
  EXPECT_EQ(reports, 1);
}

TEST(Ranks, ALostRankIsNamedWithItsStepAndCollective) {
  loseOne(1);
}
TEST(Ranks, TheLossOfTheFirstRankToo) {
  loseOne(0);
}

TEST(Ranks, AnErrorOfOneRankEndsTheOthersAndIsReportedOnce) {
  Channels channels = channelsOf(3);
  std::atomic<int> reports{0};
  onAll(channels, [&](ControlChannel &c) {
    Status mine = c.rank() == 1 ? resourceExhausted("the disk is full") : c.barrier("saved");
    EXPECT_EQ(mine.code(), StatusCode::ResourceExhausted);
    RunFailure failure = c.fail(mine);
    EXPECT_EQ(failure.status.message(), "rank 1: the disk is full");
    EXPECT_EQ(failure.rank, 1u);
    EXPECT_EQ(failure.reportHere, c.rank() == 1);
    reports += failure.reportHere;
  });
  EXPECT_EQ(reports, 1);
}

TEST(Ranks, ABrokenConnectionWaitsForTheLossThatCausedIt) {
  Channels channels = channelsOf(3);
  std::thread symptom([&] {
    RunFailure failure = channels[2]->fail(unavailable("all_gather block 3: connection reset"));
    EXPECT_EQ(failure.rank, 1u);
    EXPECT_THAT(failure.status.message(), HasSubstr("rank 1 is lost"));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  channels[1].reset();
  symptom.join();
  EXPECT_THAT(channels[0]->barrier("x").message(), HasSubstr("rank 1 is lost"));
}

TEST(Ranks, WithoutACauseTheSymptomIsTheFailure) {
  Channels channels = channelsOf(2);
  RunFailure failure = channels[1]->fail(unavailable("all_gather block 3: connection reset"));
  EXPECT_EQ(failure.status.message(), "rank 1: all_gather block 3: connection reset");
  EXPECT_TRUE(failure.reportHere);
}

TEST(Ranks, RanksThatDoNotMoveAreAHang) {
  Channels channels = channelsOf(2, 1.5);
  channels[1]->progress().enterStep(7);
  channels[1]->progress().beginPlanStep("update", "norm");
  Status status = channels[0]->barrier("counts");
  EXPECT_THAT(status.message(), HasSubstr("no rank has moved for"));
  EXPECT_THAT(status.message(), HasSubstr("rank 0: starting, step 0, waits for all ranks in 'counts'"));
  EXPECT_THAT(status.message(), HasSubstr("rank 1: starting, step 7, update, 'norm'"));
}

TEST(Ranks, SlowLoadingIsNoHang) {
  Channels channels = channelsOf(2, 1.5); // what a loaded machine may need between two turns of a thread
  std::atomic<bool> loaded{false};
  std::thread loading([&] {
    for (int i = 0; i < 40; ++i) {
      channels[1]->progress().addBytes(1000);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    loaded = true;
    EXPECT_TRUE(channels[1]->barrier("loaded").isOk());
  });
  EXPECT_TRUE(channels[0]->barrier("loaded").isOk());
  EXPECT_TRUE(loaded);
  loading.join();
}

TEST(Watchdog, ASilentRankIsBlamed) {
  Watchdog dog(2, 5);
  RankProgress waits{.phase = "training", .step = 3, .collective = "all_gather b0", .inCollective = true, .work = 9};
  dog.report(0, waits);
  dog.report(1, {.phase = "training", .step = 3, .work = 8});
  for (int i = 0; i < 4; ++i) {
    dog.advance(1);
    dog.report(0, waits);
    EXPECT_FALSE(dog.check());
  }
  dog.advance(1);
  auto hang = dog.check();
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1u);
  EXPECT_THAT(hang->message, HasSubstr("rank 1 was not heard for 5 s"));
  EXPECT_THAT(hang->message, HasSubstr("rank 0: step 3, in all_gather b0"));
}

TEST(Watchdog, WaitingForARankThatMovesIsAStraggler) {
  Watchdog dog(3, 300);
  RankProgress waits{.phase = "training", .step = 3, .collective = "all_gather b0", .inCollective = true, .work = 9};
  std::vector<std::string> lines;
  for (uint64_t i = 0; i < 1000; ++i) {
    dog.advance(1);
    dog.report(0, waits);
    dog.report(1, {.phase = "saving", .step = 3, .work = 8, .bytes = i << 20});
    dog.report(2, waits);
    EXPECT_FALSE(dog.check());
    if (auto line = dog.takeStraggler())
      lines.push_back(*line);
  }
  ASSERT_EQ(lines.size(), 6u); // after 30, 60, 120, 240, 480, 960 s
  EXPECT_THAT(lines[0], HasSubstr("rank 0 (and 1 more) has waited 30 s in all_gather b0 of step 3 for rank 1 (saving"));
  // It stops moving: then it is a hang, and the one that waits for nobody is to blame.
  for (int i = 0; i < 299; ++i) {
    dog.advance(1);
    dog.report(0, waits);
    dog.report(1, {.phase = "saving", .step = 3, .work = 8, .bytes = uint64_t(999) << 20});
    dog.report(2, waits);
    EXPECT_FALSE(dog.check());
  }
  dog.advance(1);
  ASSERT_TRUE(dog.check());
  EXPECT_EQ(dog.check()->rank, 1u);
}

TEST(Watchdog, TimeInWhichNobodyRanDoesNotCount) {
  ObservedClock clock;
  EXPECT_EQ(clock.advance(100), 0);
  EXPECT_EQ(clock.advance(101), 1);
  EXPECT_EQ(clock.advance(5000), ObservedClock::kLongestTick);
}

/// A run over TCP on this host: every rank is what `change` makes of it. Results by index.
std::vector<JoinResult> joinAll(uint32_t count, const std::function<void(JoinOptions &)> &change) {
  auto [listener, place] = *listenLocally();
  std::vector<JoinResult> results(count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    JoinOptions options{
        .rank = i, .world = count, .place = place, .listener = i == 0 ? listener : -1, .version = "1.0"};
    options.timeoutSeconds = 20;
    change(options);
    threads.emplace_back([&results, i, options] { results[i] = joinRun(options); });
  }
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

Channels channelsOf(std::vector<JoinResult> results) {
  Channels channels;
  for (JoinResult &result : results) {
    if (auto *failure = std::get_if<RunFailure>(&result))
      ADD_FAILURE() << failure->status.message();
    else
      channels.push_back(std::move(std::get<0>(result)));
  }
  return channels;
}

std::string messageOf(const JoinResult &result) {
  const auto *failure = std::get_if<RunFailure>(&result);
  return failure ? failure->status.message() : "joined";
}

TEST(TcpRanks, MeetAndPart) {
  Channels channels = channelsOf(joinAll(3, [](JoinOptions &) {}));
  ASSERT_EQ(channels.size(), 3u);
  onAll(channels, [](ControlChannel &c) {
    EXPECT_EQ(c.localAddress(), "127.0.0.1");
    for (uint32_t i = 0; i < 50; ++i)
      EXPECT_EQ(*allGatherValue(c, "x", c.rank() + i), (std::vector<uint32_t>{i, i + 1, i + 2}));
    EXPECT_TRUE(c.finish().isOk());
  });
}

TEST(TcpRanks, OverVersionSix) {
  const HostPort place{"::1", uint16_t(20000 + getpid() % 10000)};
  auto made = listenAt(place, 0.1);
  if (!made.isOk())
    GTEST_SKIP() << made.status().message();
  Channels channels = channelsOf(joinAll(2, [&](JoinOptions &o) {
    if (o.rank == 0) {
      close(o.listener);
      o.listener = *made;
    }
    o.place = place;
  }));
  ASSERT_EQ(channels.size(), 2u);
  EXPECT_EQ(channels[1]->localAddress(), "::1");
  onAll(channels, [](ControlChannel &c) { EXPECT_TRUE(c.finish().isOk()); });
}

TEST(TcpRanks, DifferentWorldsAreRefusedOnBothSides) {
  auto results = joinAll(2, [](JoinOptions &o) { o.world = o.rank == 0 ? 2 : 4; });
  for (const JoinResult &result : results)
    EXPECT_THAT(messageOf(result), HasSubstr("rank 0 expects 2 ranks, rank 1 expects 4"));
}

TEST(TcpRanks, OneRankTwice) {
  auto results = joinAll(3, [](JoinOptions &o) { o.rank = o.rank == 2 ? 1 : o.rank; });
  EXPECT_THAT(messageOf(results[0]), HasSubstr("rank 1 is there twice, from 127.0.0.1 and from 127.0.0.1"));
}

TEST(TcpRanks, DifferentVersions) {
  auto results = joinAll(2, [](JoinOptions &o) { o.version = o.rank == 0 ? "0.1.0" : "0.2.0"; });
  for (const JoinResult &result : results)
    EXPECT_THAT(messageOf(result), HasSubstr("rank 0 runs ztc 0.1.0, rank 1 runs ztc 0.2.0"));
}

TEST(TcpRanks, AnotherRunOnThePort) {
  auto results = joinAll(2, [](JoinOptions &o) {
    o.timeoutSeconds = 0.5;
    o.secret = o.rank == 0 ? "one" : "two";
  });
  EXPECT_THAT(messageOf(results[0]), HasSubstr("1 of 2 ranks are here, missing: rank 1"));
  EXPECT_THAT(messageOf(results[1]), HasSubstr("belongs to another run, or has another plan"));
  EXPECT_THAT(messageOf(results[1]), Not(HasSubstr("one"))); // rank 0 keeps its secret to itself
}

TEST(TcpRanks, ARankThatDoesNotReachTheFirstSaysWhere) {
  auto [listener, place] = *listenLocally();
  close(listener);
  JoinOptions options{.rank = 1, .world = 2, .place = place};
  options.timeoutSeconds = 0.3;
  EXPECT_THAT(messageOf(joinRun(options)), HasSubstr("rank 1 does not reach rank 0 at " + place.text()));
}

TEST(TcpRanks, APortWhereNobodySpeaksIsGivenUp) {
  auto [listener, place] = *listenLocally();
  JoinOptions options{.rank = 1, .world = 2, .place = place};
  options.timeoutSeconds = 0.3;
  EXPECT_THAT(messageOf(joinRun(options)), HasSubstr(place.text() + " takes connections, but rank 0 has not spoken"));
  close(listener);
}

TEST(TcpRanks, StrangersDoNotDisturb) {
  std::atomic<int> strangers{0};
  Channels channels = channelsOf(joinAll(2, [&](JoinOptions &o) {
    if (o.rank == 0)
      return;
    for (const std::string &text : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(100000, 'x'), std::string()}) {
      auto socket = connectOnce(o.place);
      ASSERT_TRUE(socket.isOk());
      (void)!send(*socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      close(*socket);
      ++strangers;
    }
  }));
  EXPECT_EQ(strangers, 3);
  ASSERT_EQ(channels.size(), 2u);
  onAll(channels, [](ControlChannel &c) { EXPECT_TRUE(c.finish().isOk()); });
}

TEST(TcpRanks, ALateComerDoesNotEndTheRun) {
  HostPort place;
  Channels channels = channelsOf(joinAll(2, [&](JoinOptions &o) { place = o.place; }));
  ASSERT_EQ(channels.size(), 2u);
  for (uint32_t rank : {0u, 1u, 5u}) {
    JoinOptions late{.rank = 1, .world = rank + 1, .place = place, .version = "1.0"};
    late.timeoutSeconds = 5;
    EXPECT_THAT(messageOf(joinRun(late)), HasSubstr("has all of its 2 ranks and is under way"));
  }
  onAll(channels, [](ControlChannel &c) { EXPECT_TRUE(c.finish().isOk()); });
}

TEST(Sockets, HostAndPort) {
  EXPECT_EQ(parseHostPort("node1:29500")->text(), "node1:29500");
  EXPECT_EQ(parseHostPort("[fd00::1]:80")->host, "fd00::1");
  EXPECT_EQ(parseHostPort("[fd00::1]:80")->text(), "[fd00::1]:80");
  for (const char *bad : {"", "node1", "node1:", ":80", "node1:0", "node1:70000", "fd00::1:80", "node1:8x"})
    EXPECT_THAT(parseHostPort(bad).status().message(), HasSubstr("HOST:PORT")) << bad;
}

} // namespace
