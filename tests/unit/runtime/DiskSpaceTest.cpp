// The space `disk`: both engines move the same bytes, what does not fit is refused, nothing is left behind.
#include "runtime/Disk/DiskSpace.h"
#include "Scratch.h"
#include "runtime/Memory/Planner.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ztc::test {
namespace {

/// Memory that direct transfers take.
struct Aligned {
  explicit Aligned(size_t bytes) : memory(static_cast<std::byte *>(std::aligned_alloc(kDiskAlignment, bytes))) {}
  ~Aligned() { std::free(memory); }
  std::byte *const memory;
};

std::vector<std::byte> randomBytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte &byte : bytes)
    byte = std::byte(random());
  return bytes;
}

class DiskSpaceTest : public ::testing::TestWithParam<const char *> {
protected:
  /// Skips where the kernel, or the container, has no io_uring.
  void open(uint64_t bytes) {
    auto made = DiskSpace::create({.folder = scratch.path(), .run = "test", .rank = 3, .engine = GetParam()}, bytes);
    if (!made.isOk() && std::string_view(GetParam()) == "io_uring")
      GTEST_SKIP() << made.status().message();
    ASSERT_OK(made.status());
    space = std::move(*made);
  }
  Scratch scratch;
  std::unique_ptr<DiskSpace> space;
};

TEST_P(DiskSpaceTest, MovesWhatItIsGiven) {
  constexpr uint64_t kBytes = uint64_t(5) << 20;
  ASSERT_NO_FATAL_FAILURE(open(kBytes));
  if (!space)
    return;
  EXPECT_EQ(space->bytes(), kBytes);
  const std::vector<std::byte> content = randomBytes(kBytes, 1);
  const Aligned memory(kBytes);
  std::copy(content.begin(), content.end(), memory.memory);
  // One transfer that is cut into pieces, and two beside it; a last one that is no multiple of a block.
  const std::vector<DiskTransfer> out{{true, 0, memory.memory, uint64_t(3) << 20},
                                      {true, uint64_t(3) << 20, memory.memory + (uint64_t(3) << 20), uint64_t(1) << 20},
                                      {true, uint64_t(4) << 20, memory.memory + (uint64_t(4) << 20), 5000}};
  EXPECT_OK(space->transfer(out));
  std::fill(memory.memory, memory.memory + kBytes, std::byte(0));
  std::vector<DiskTransfer> in = out;
  for (DiskTransfer &transfer : in)
    transfer.isWrite = false;
  EXPECT_OK(space->transfer(in));
  const uint64_t written = (uint64_t(4) << 20) + 5000;
  EXPECT_TRUE(std::equal(content.begin(), content.begin() + written, memory.memory));
  // Any range of it, and what was never written is zero.
  std::vector<std::byte> some(7777);
  EXPECT_OK(space->readAnywhere(1234567, some.data(), some.size()));
  EXPECT_TRUE(std::equal(some.begin(), some.end(), content.begin() + 1234567));
  std::vector<std::byte> rest(kBytes - written, std::byte(1));
  EXPECT_OK(space->readAnywhere(written, rest.data(), rest.size()));
  EXPECT_TRUE(std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte(0); }));
}

TEST_P(DiskSpaceTest, TakesMemoryThatIsNotAligned) {
  ASSERT_NO_FATAL_FAILURE(open(uint64_t(1) << 20));
  if (!space)
    return;
  std::vector<std::byte> content = randomBytes(300001, 2);
  const DiskTransfer out{true, 4096, content.data() + 1, content.size() - 1};
  EXPECT_OK(space->transfer({&out, 1}));
  std::vector<std::byte> back(content.size() - 1);
  EXPECT_OK(space->readAnywhere(4096, back.data(), back.size()));
  EXPECT_TRUE(std::equal(back.begin(), back.end(), content.begin() + 1));
}

TEST_P(DiskSpaceTest, WritesAnyRangeAndLeavesItsNeighbours) {
  ASSERT_NO_FATAL_FAILURE(open(uint64_t(4) << 20));
  if (!space)
    return;
  std::vector<std::byte> expected(uint64_t(4) << 20);
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::byte> piece = randomBytes(1 + random() % (i % 5 ? 9000 : 2000000), random());
    const uint64_t at = random() % (expected.size() - piece.size());
    EXPECT_OK(space->writeAnywhere(at, piece.data(), piece.size()));
    std::ranges::copy(piece, expected.begin() + int64_t(at));
  }
  std::vector<std::byte> found(expected.size());
  EXPECT_OK(space->readAnywhere(0, found.data(), found.size()));
  EXPECT_TRUE(found == expected);
}

TEST_P(DiskSpaceTest, WhatIsWrittenInPiecesIsThereForTransfersAndTheOtherWayRound) {
  constexpr uint64_t kBytes = uint64_t(8) << 20;
  ASSERT_NO_FATAL_FAILURE(open(kBytes));
  if (!space)
    return;
  std::vector<std::byte> expected(kBytes);
  std::mt19937 random(4);
  const Aligned memory(kBytes);
  for (int round = 0; round < 40; ++round) {
    const std::vector<std::byte> piece = randomBytes(1 + random() % 5000, random());
    const uint64_t at = random() % (kBytes - piece.size());
    EXPECT_OK(space->writeAnywhere(at, piece.data(), piece.size()));
    std::ranges::copy(piece, expected.begin() + int64_t(at));
    const uint64_t begin = random() % (kBytes / 4096) * 4096,
                   length = std::min<uint64_t>(kBytes - begin, random() % 300000);
    if (round % 2) { // out
      const std::vector<std::byte> whole = randomBytes(length, random());
      std::ranges::copy(whole, memory.memory);
      std::ranges::copy(whole, expected.begin() + int64_t(begin));
    }
    const DiskTransfer transfer{round % 2 == 1, begin, memory.memory, length};
    EXPECT_OK(space->transfer({&transfer, 1}));
    EXPECT_TRUE(std::equal(memory.memory, memory.memory + length, expected.begin() + int64_t(begin))) << round;
  }
  std::vector<std::byte> found(kBytes);
  EXPECT_OK(space->readAnywhere(0, found.data(), found.size()));
  EXPECT_TRUE(found == expected);
}

TEST_P(DiskSpaceTest, RefusesWhatLeavesTheFile) {
  ASSERT_NO_FATAL_FAILURE(open(8192));
  if (!space)
    return;
  std::vector<std::byte> bytes(8192);
  EXPECT_FALSE(space->readAnywhere(1, bytes.data(), 8192).isOk());
  EXPECT_FALSE(space->writeAnywhere(UINT64_MAX, bytes.data(), 2).isOk());
  const DiskTransfer outside{false, 4096, bytes.data(), 8192};
  EXPECT_FALSE(space->transfer({&outside, 1}).isOk());
}

TEST_P(DiskSpaceTest, TheFileIsReservedAndGoneAtTheEnd) {
  constexpr uint64_t kBytes = 10000;
  ASSERT_NO_FATAL_FAILURE(open(kBytes));
  if (!space)
    return;
  struct stat status{};
  ASSERT_EQ(stat(space->path().c_str(), &status), 0);
  EXPECT_EQ(uint64_t(status.st_size), 12288u); // whole blocks
  EXPECT_GE(uint64_t(status.st_blocks) * 512, 12288u);
  EXPECT_NE(space->path().find("ztc-offload-test-rank3"), std::string::npos);
  const std::string path = space->path();
  space.reset();
  EXPECT_FALSE(pathExists(path));
}

INSTANTIATE_TEST_SUITE_P(Engines, DiskSpaceTest, ::testing::Values("threads", "io_uring"),
                         [](const auto &param) { return std::string(param.param); });

TEST(DiskSpace, SaysHowMuchIsMissing) {
  const Scratch scratch;
  const StatusOr<uint64_t> available = freeBytes(scratch.path());
  ASSERT_OK(available.status());
  const auto made = DiskSpace::create({.folder = scratch.path(), .run = "big", .rank = 0, .engine = ""},
                                      *available + (uint64_t(1) << 40));
  ASSERT_FALSE(made.isOk());
  EXPECT_EQ(made.status().code(), StatusCode::ResourceExhausted);
  EXPECT_NE(made.status().message().find("bytes more than are free"), std::string::npos) << made.status().message();
  EXPECT_TRUE(listFolder(scratch.path())->empty());
}

TEST(DiskSpace, NamesAFolderThatIsNotThere) {
  const auto made = DiskSpace::create({.folder = "/nowhere/at/all", .run = "x", .rank = 0, .engine = ""}, 4096);
  ASSERT_FALSE(made.isOk());
  EXPECT_NE(made.status().message().find("/nowhere/at/all"), std::string::npos);
  EXPECT_FALSE(DiskSpace::create(DiskSpaceOptions(), 4096).isOk());
}

TEST(DiskSpace, RemovesWhatKilledRunsLeftAndNothingThatIsInUse) {
  const Scratch scratch;
  const std::string abandoned = scratch.write("ztc-offload-old-rank0", "x"),
                    mine = scratch.write("ztc-offload-busy-rank0", "x"), other = scratch.write("other", "x");
  const int busy = open(mine.c_str(), O_RDWR);
  ASSERT_EQ(flock(busy, LOCK_EX | LOCK_NB), 0);
  const auto made = DiskSpace::create({.folder = scratch.path(), .run = "new", .rank = 0, .engine = ""}, 4096);
  ASSERT_OK(made.status());
  EXPECT_FALSE(pathExists(abandoned));
  EXPECT_TRUE(pathExists(mine));
  EXPECT_TRUE(pathExists(other));
  // Two runs of one name do not meet.
  const auto again = DiskSpace::create({.folder = scratch.path(), .run = "new", .rank = 0, .engine = ""}, 4096);
  ASSERT_OK(again.status());
  EXPECT_NE((*made)->path(), (*again)->path());
  close(busy);
}

TEST(DiskSpace, LooksAgainForWhatAKilledRunStillHolds) {
  // The kernel holds the lock of a killed run until transfers that were in flight have ended.
  const Scratch scratch;
  const Aligned memory(4096);
  const DiskTransfer transfer{false, 0, memory.memory, 4096};
  for (const bool isLong : {false, true}) {
    const std::string dying = scratch.write("ztc-offload-old-rank0", "x");
    const int held = open(dying.c_str(), O_RDWR);
    ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
    auto made = DiskSpace::create({.folder = scratch.path(), .run = "new", .rank = 0, .engine = "threads"}, 4096);
    ASSERT_OK(made.status());
    close(held);
    EXPECT_TRUE(pathExists(dying));
    if (isLong) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      ASSERT_OK((*made)->transfer({&transfer, 1}));
      EXPECT_FALSE(pathExists(dying)) << "at a transfer, a second later";
      EXPECT_TRUE(pathExists((*made)->path()));
    }
    made->reset();
    EXPECT_FALSE(pathExists(dying)) << "at the end";
  }
}

TEST(DiskSpace, RanksThatBeginTogetherLeaveEachOthersFiles) {
  const Scratch scratch;
  std::vector<std::thread> ranks;
  std::atomic<int> lost = 0;
  for (uint32_t rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      for (int round = 0; round < 50; ++round) {
        const auto made =
            DiskSpace::create({.folder = scratch.path(), .run = "new", .rank = rank, .engine = "threads"}, 4096);
        lost += !made.isOk() || !pathExists((*made)->path());
      }
    });
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_EQ(lost, 0);
}

} // namespace
} // namespace ztc::test
