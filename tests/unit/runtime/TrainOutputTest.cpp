// What a run says: JSON lines that parse back to the same numbers, progress text, stop signals.
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/Progress.h"
#include "runtime/Train/Signals.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

using namespace ztc;

namespace {

std::string temporaryFile() {
  std::string path = testing::TempDir() + "ztc-output-XXXXXX";
  int descriptor = mkstemp(path.data());
  if (descriptor >= 0)
    close(descriptor);
  return path;
}

std::string contents(const std::string &path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(TrainJsonLog, NumbersReadBackToTheBit) {
  JsonObject object;
  object.begin();
  const double values[] = {0.1, 1e-300, 6.02214076e23, -0.0, 1.0 / 3, 5.595958232879639};
  for (size_t i = 0; i < std::size(values); ++i)
    object.add("v" + std::to_string(i), values[i]);
  object.add("f", 0.1f)
      .add("big", uint64_t(1) << 63)
      .add("yes", true)
      .add("nan", std::numeric_limits<double>::quiet_NaN());
  object.add("inf", -std::numeric_limits<float>::infinity()).add("text", "a \"b\"\n\\").addRaw("raw", "{\"x\": 1}");
  auto json = nlohmann::json::parse(object.end(), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  for (size_t i = 0; i < std::size(values); ++i)
    EXPECT_EQ(json["v" + std::to_string(i)].get<double>(), values[i]);
  EXPECT_EQ(json["f"].get<float>(), 0.1f);
  EXPECT_EQ(json["big"].get<uint64_t>(), uint64_t(1) << 63);
  EXPECT_TRUE(json["nan"].is_null());
  EXPECT_TRUE(json["inf"].is_null());
  EXPECT_EQ(json["text"], "a \"b\"\n\\");
  EXPECT_EQ(json["raw"]["x"], 1);
}

TEST(TrainJsonLog, ANewRunReplacesAndAResumedOneAppends) {
  std::string path = temporaryFile();
  for (bool append : {false, true, false}) {
    JsonLog log;
    ASSERT_TRUE(log.open(path, append).isOk());
    log.write("{}");
    EXPECT_EQ(contents(path), append ? "{}\n{}\n" : "{}\n"); // there at once
  }
  std::remove(path.c_str());
}

TEST(TrainJsonLog, BeforeTheFirstLineNothingChanges) {
  const std::string path = temporaryFile(), fresh = path + ".new";
  std::ofstream(path) << "old\n";
  {
    JsonLog log, other;
    ASSERT_TRUE(log.open(path, false).isOk());
    ASSERT_TRUE(other.open(fresh, false).isOk());
  }
  EXPECT_EQ(contents(path), "old\n");
  EXPECT_NE(access(fresh.c_str(), F_OK), 0);
  std::remove(path.c_str());
}

TEST(TrainJsonLog, AFileThatCannotBeWrittenIsNamed) {
  JsonLog log;
  Status status = log.open("/nonexistent/log.jsonl", false);
  EXPECT_NE(status.message().find("/nonexistent/log.jsonl"), std::string::npos);
}

TEST(TrainJsonLog, AFileHasOneWriterAndADeviceAnyNumber) {
  const std::string path = temporaryFile();
  for (const std::string &file : {path, std::string("/dev/null")}) {
    JsonLog log, other;
    ASSERT_TRUE(log.open(file, true).isOk());
    const Status status = other.open(file, true);
    EXPECT_EQ(status.isOk(), file != path);
    EXPECT_EQ(status.message().find("another run is writing") != std::string::npos, file == path) << status.message();
  }
  std::remove(path.c_str());
}

TEST(TrainJsonLog, AFullDiskEndsTheLogOnly) {
  testing::internal::CaptureStderr();
  {
    JsonLog log;
    ASSERT_TRUE(log.open("/dev/full", true).isOk());
    log.write("{}");
    log.write("{}");
    EXPECT_TRUE(log.isOpen());
    log.write(std::string(size_t(9) << 20, ' ')); // more than is kept
    EXPECT_FALSE(log.isOpen());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("/dev/full waits: "), std::string::npos) << said;
  EXPECT_EQ(said.find("/dev/full waits: "), said.rfind("/dev/full waits: ")) << said;
  EXPECT_NE(said.find("/dev/full ends here: "), std::string::npos) << said;
}

TEST(TrainJsonLog, WhatStillDoesNotFitAtTheEndIsNamed) {
  testing::internal::CaptureStderr();
  {
    JsonLog log;
    ASSERT_TRUE(log.open("/dev/full", true).isOk());
    log.write("{}");
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("/dev/full ends here: "), std::string::npos);
}

TEST(TrainJsonLog, LinesOfAFullDiskAreWrittenOnceThereIsSpace) {
  const std::string path = testing::TempDir() + "waiting.jsonl";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  testing::internal::CaptureStderr();
  {
    JsonLog log;
    ASSERT_TRUE(log.open(path, false).isOk());
    log.write("{1}");
    const rlimit small{6, before.rlim_max}; // within the second line
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    log.write("{2}");
    log.write("{3}");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(contents(path), "{1}\n"); // a reader finds whole lines
    log.write("{4}");
    EXPECT_EQ(contents(path), "{1}\n{2}\n{3}\n{4}\n");
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("ends here"), std::string::npos);
  std::remove(path.c_str());
}

TEST(TrainProgress, TextForPeople) {
  EXPECT_EQ(humanSeconds(41.7), "42s");
  EXPECT_EQ(humanSeconds(187), "3m07s");
  EXPECT_EQ(humanSeconds(7500), "2h05m");
  EXPECT_EQ(humanSeconds(std::numeric_limits<double>::quiet_NaN()), "?");
  EXPECT_EQ(progressText({.step = 3,
                          .steps = 30,
                          .loss = 5.59596,
                          .gradientNorm = 0.75,
                          .learningRate = 1e-3,
                          .tokensPerSecond = 12345.6,
                          .secondsLeft = 61}),
            "step 3/30  loss 5.5960  norm 0.750  lr 1.00e-03  12346 tokens/s  left 1m01s");
  EXPECT_EQ(progressText({.step = 3,
                          .steps = 30,
                          .loss = std::numeric_limits<double>::quiet_NaN(),
                          .learningRate = 1e-3,
                          .hasTargets = false,
                          .tokensPerSecond = 12345.6,
                          .secondsLeft = 61}),
            "step 3/30  no target is counted  lr 1.00e-03  12346 tokens/s  left 1m01s");
}

TEST(TrainProgress, PlainLinesEveryFiveSecondsAndTheLast) {
  std::string path = temporaryFile();
  std::FILE *file = std::fopen(path.c_str(), "w");
  {
    Progress progress(file, false);
    for (int second = 0; second < 12; ++second)
      if (progress.isDue(100 + second, second == 11))
        progress.show({.step = uint64_t(second), .steps = 12}, 100 + second);
  }
  std::fclose(file);
  std::string text = contents(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4); // 0, 5, 10, 11
  std::remove(path.c_str());
}

TEST(TrainProgress, ANoteEndsTheLiveLine) {
  std::string path = temporaryFile();
  std::FILE *file = std::fopen(path.c_str(), "w");
  {
    Progress progress(file, true);
    progress.show({.step = 0, .steps = 2}, 0);
    progress.note("saved");
  }
  std::fclose(file);
  std::string text = contents(path);
  EXPECT_EQ(text.rfind("\r\033[K", 0), 0u);
  EXPECT_NE(text.find("\nsaved\n"), std::string::npos);
  std::remove(path.c_str());
}

TEST(TrainSignals, ASignalSetsAFlagAndASecondInterruptEnds) {
  installStopSignals();
  clearStopSignal();
  EXPECT_EQ(stopSignal(), 0);
  std::raise(SIGTERM);
  EXPECT_EQ(stopSignal(), SIGTERM);
  std::raise(SIGINT);
  EXPECT_EQ(stopSignal(), SIGINT);
  EXPECT_STREQ(stopSignalName(SIGINT), "SIGINT");
  EXPECT_EXIT(std::raise(SIGINT), testing::KilledBySignal(SIGINT), "^$");
  clearStopSignal();
}

TEST(TrainSignals, ASecondInterruptSaysWhatIsLost) {
  installStopSignals();
  const auto interruptTwice = [](std::initializer_list<std::string_view> texts) {
    clearStopSignal();
    sayWhenInterruptedAgain();
    for (const std::string_view text : texts)
      setInterruptedText(text);
    std::raise(SIGINT);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(interruptTwice({"first", "second", "the last one is ck/step-00000010"}), testing::KilledBySignal(SIGINT),
              "^\n?ztc-run: interrupted again: the last one is ck/step-00000010\n$");
  const std::string endless(size_t(1) << 16, 'x');
  EXPECT_EXIT(interruptTwice({endless}), testing::KilledBySignal(SIGINT), "again: x+\\.\\.\\. .*bytes more.\n$");
  clearStopSignal();
}

TEST(TrainSignals, ATerminalThatStandsStillDoesNotKeepItFromEnding) {
  const auto interruptTwice = [] {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0)
      _exit(1);
    const std::string full(4096, 'x');
    while (write(ends[1], full.data(), full.size()) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0); // nobody reads, and a write would wait
    dup2(ends[1], STDERR_FILENO);
    installStopSignals();
    clearStopSignal();
    sayWhenInterruptedAgain();
    std::raise(SIGINT);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(interruptTwice(), testing::KilledBySignal(SIGINT), "");
  clearStopSignal();
}

} // namespace
