// Output whose reader stands still, or is gone.
#include "runtime/Core/BackgroundWriter.h"
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <utility>

using namespace ztc;

namespace {

/// A pipe of one page.
struct Pipe {
  Pipe() {
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
  }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  std::string read(size_t bytes) const {
    std::string text(bytes, '\0');
    size_t have = 0;
    while (have < bytes) {
      const ssize_t count = ::read(ends[0], text.data() + have, bytes - have);
      if (count <= 0)
        break;
      have += size_t(count);
    }
    text.resize(have);
    return text;
  }
  int ends[2];
};

TEST(BackgroundWriter, WritesInOrderAndWhole) {
  const Pipe pipe;
  BackgroundWriter writer(pipe.ends[1], 1 << 20);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    expected += std::to_string(i) + "\n";
    EXPECT_TRUE(writer.write(std::to_string(i) + "\n"));
  }
  EXPECT_EQ(pipe.read(expected.size()), expected);
  EXPECT_TRUE(writer.end(5));
  EXPECT_EQ(writer.pendingBytes(), 0u);
}

TEST(BackgroundWriter, NeverWaitsForAReaderAndDropsWhatIsTooMuch) {
  auto *const pipe = new Pipe; // stays: the thread is left behind in a write
  BackgroundWriter writer(pipe->ends[1], 10000);
  size_t taken = 0;
  for (int i = 0; i < 1000; ++i)
    taken += writer.write(std::string(100, 'x'));
  EXPECT_GE(taken, 100u);
  EXPECT_LT(taken, 200u);
  EXPECT_GT(writer.pendingBytes(), 0u);
  EXPECT_FALSE(writer.end(0.05));
}

TEST(BackgroundWriter, TakesMoreWhereTheReaderGoesOn) {
  const Pipe pipe;
  BackgroundWriter writer(pipe.ends[1], 10000);
  size_t taken = 0;
  while (writer.write(std::string(100, 'x')))
    taken += 100;
  EXPECT_EQ(pipe.read(6000).size(), 6000u);
  for (int i = 0; i < 1000 && !writer.write("once more"); ++i)
    usleep(1000);
  EXPECT_EQ(pipe.read(taken - 6000), std::string(taken - 6000, 'x')); // what was dropped is whole writes
  EXPECT_EQ(pipe.read(9), "once more");
}

TEST(BackgroundWriter, AClosedPipeIsAnErrorAndNoSignal) {
  Pipe pipe;
  BackgroundWriter writer(pipe.ends[1], 10000);
  close(std::exchange(pipe.ends[0], -1));
  (void)writer.write("nobody");
  EXPECT_TRUE(writer.end(5));
  EXPECT_EQ(writer.error(), EPIPE);
  EXPECT_FALSE(writer.write("more"));
}

} // namespace
