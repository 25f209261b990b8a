// Exchanges, values and failures of a control channel.
#include "runtime/Ranks/ControlChannel.h"
#include <gtest/gtest.h>

using namespace ztc;

namespace {

TEST(SingleChannel, ExchangesAreCollectedInTheOrderOfTheirPosts) {
  auto control = createSingleChannel();
  EXPECT_EQ(control->world(), 1u);
  ASSERT_TRUE(control->post("counts", bytesOf(uint64_t(7))).isOk());
  ASSERT_TRUE(control->post("counts", bytesOf(uint64_t(8))).isOk());
  EXPECT_EQ((*collectValues<uint64_t>(*control, "counts"))[0], 7u);
  EXPECT_EQ((*allGatherValue(*control, "other", 1.5))[0], 1.5);
  EXPECT_EQ((*collectValues<uint64_t>(*control, "counts"))[0], 8u);
  EXPECT_FALSE(control->collect("counts").isOk());
  EXPECT_TRUE(control->barrier("here").isOk());
  const Bytes value{std::byte(1), std::byte(2)};
  ASSERT_TRUE(control->set("key", value).isOk());
  EXPECT_EQ(*control->get("key"), value);
  EXPECT_TRUE(control->finish().isOk());
}

TEST(SingleChannel, TheFirstFailureStays) {
  auto control = createSingleChannel();
  int called = 0;
  control->onFailure([&](const Status &) { ++called; });
  RunFailure failure = control->fail(dataLoss("the disk is gone"));
  EXPECT_TRUE(failure.reportHere);
  EXPECT_EQ(control->fail(internalError("later")).status.message(), "the disk is gone");
  EXPECT_EQ(called, 1);
  EXPECT_EQ(control->post("x", {}).code(), StatusCode::DataLoss);
}

TEST(ProgressBoard, KeepsTheLastCollectiveWhenThePlanIsGone) {
  ProgressBoard board;
  {
    std::string program = "microstep", step = "blocks.0 all_gather", collective = "all_gather blocks.0";
    board.enterPhase("training");
    board.enterStep(12);
    board.beginPlanStep(program.c_str(), step.c_str());
    board.beginCollective(collective.c_str());
    RankProgress now = board.snapshot();
    EXPECT_EQ(now.place, "microstep, 'blocks.0 all_gather'");
    EXPECT_TRUE(now.inCollective);
    EXPECT_EQ(now.work, 2u);
    board.endCollective();
    board.forgetNames();
  }
  RankProgress now = board.snapshot();
  EXPECT_EQ(now.collective, "all_gather blocks.0");
  EXPECT_FALSE(now.inCollective);
  EXPECT_EQ(now.place, "microstep, 'blocks.0 all_gather'");
  EXPECT_EQ(now.step, 12u);
  EXPECT_EQ(now.work, 3u);
}

TEST(ProgressBoard, ShowsTheProgramThatADeviceIsIn) {
  ProgressBoard board;
  board.enterStep(12);
  board.beginPlanStep("update", "all steps at once");
  board.beginCollective("all_gather blocks.0");
  const ProgressBoard::Place device = board.place();
  board.enterStep(13);
  board.beginPlanStep("microstep", "all steps at once");
  const ProgressBoard::Place host = board.place();
  board.show(device);
  RankProgress now = board.snapshot();
  EXPECT_EQ(now.step, 12u);
  EXPECT_EQ(now.place, "update, 'all steps at once'");
  EXPECT_TRUE(now.inCollective);
  board.show(host);
  now = board.snapshot();
  EXPECT_EQ(now.step, 13u);
  EXPECT_EQ(now.place, "microstep, 'all steps at once'");
}

TEST(ProgressBoard, TellsOfTheExchangeThatIsWaitedForLongest) {
  ProgressBoard board;
  board.enterExchange("files written"); // by a thread that saves
  board.enterExchange("step");
  EXPECT_EQ(board.snapshot().waitsFor, "files written");
  board.leaveExchange("files written");
  EXPECT_EQ(board.snapshot().waitsFor, "step");
  board.leaveExchange("step");
  EXPECT_EQ(board.snapshot().waitsFor, "");
}

} // namespace
