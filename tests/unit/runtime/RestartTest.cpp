// What a run that has lost a rank is started again with.
#include "runtime/Ranks/RestartOrder.h"
#include <gtest/gtest.h>

using namespace ztc;

namespace {

using Words = std::vector<std::string>;

TEST(Restart, FewerRanksKeepTheGlobalBatch) {
  EXPECT_EQ(fewerRanks(8, 64, 2), 4u); // 32 micro-batches: 7, 6 and 5 do not divide them
  EXPECT_EQ(fewerRanks(4, 12, 1), 3u);
  EXPECT_EQ(fewerRanks(3, 3, 1), 1u);
  EXPECT_EQ(fewerRanks(2, 5, 2), 0u); // not even one rank
  EXPECT_EQ(fewerRanks(1, 4, 1), 0u);
}

TEST(Restart, AnOptionStandsOnceInFront) {
  EXPECT_EQ(withOption({"ztc-run", "plan", "--data", "a", "b"}, "--resume", "ck"),
            (Words{"ztc-run", "--resume=ck", "plan", "--data", "a", "b"}));
  EXPECT_EQ(withOption({"ztc-run", "--resume", "old", "plan", "--resumed"}, "--resume", "ck"),
            (Words{"ztc-run", "--resume=ck", "plan", "--resumed"}));
  EXPECT_EQ(withOption({"ztc-run", "plan", "--ranks=4", "--save=x"}, "--ranks", "2"),
            (Words{"ztc-run", "--ranks=2", "plan", "--save=x"}));
}

TEST(Restart, ACommandLineIsOneForAShell) {
  EXPECT_EQ(commandLine({"ztc-run", "plan.bin", "--lr=1e-3"}), "ztc-run plan.bin --lr=1e-3");
  EXPECT_EQ(commandLine({"a b", "it's", ""}), "'a b' 'it'\\''s' ''");
}

TEST(Restart, TheLostDeviceIsLeftOut) {
  EXPECT_EQ(devicesWithout("", 4, 1), "0,2,3");
  EXPECT_EQ(devicesWithout("5,7,GPU-1", 3, 0), "7,GPU-1");
  EXPECT_EQ(devicesWithout("3", 1, 4), "3");
}

} // namespace
