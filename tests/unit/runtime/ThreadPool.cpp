#include "runtime/Device/host/ThreadPool.h"
#include <gtest/gtest.h>
#include <numeric>

namespace ztc {
namespace {

TEST(ThreadPool, SplitCoversEverythingOnceInMultiplesOfTheGrain) {
  for (uint64_t extent : {1ull, 7ull, 64ull, 1000ull})
    for (uint64_t grain : {1ull, 8ull, 48ull})
      for (uint32_t parts : {1u, 2u, 3u, 7u}) {
        uint64_t at = 0;
        for (uint32_t part = 0; part < parts; ++part) {
          WorkRange range = splitRange(extent, grain, part, parts);
          EXPECT_EQ(range.begin, at);
          EXPECT_TRUE(range.begin % grain == 0 || range.empty());
          at = range.end;
        }
        EXPECT_EQ(at, extent);
      }
}

TEST(ThreadPool, EveryUnitOnceByTheSameWorker) {
  ThreadPool pool(3);
  std::vector<uint32_t> first(1000, 99);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<int> count(1000, 0);
    std::vector<uint32_t> owner(1000, 99);
    pool.parallelFor(1000, 16, [&](uint32_t worker, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) {
        ++count[i];
        owner[i] = worker;
      }
    });
    EXPECT_EQ(std::accumulate(count.begin(), count.end(), 0), 1000);
    if (repeat == 0)
      first = owner;
    EXPECT_EQ(owner, first);
  }
}

TEST(ThreadPool, SmallRangesStayOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id caller = std::this_thread::get_id(), seen;
  pool.parallelFor(10, 10, [&](uint32_t worker, uint64_t, uint64_t) {
    EXPECT_EQ(worker, 0u);
    seen = std::this_thread::get_id();
  });
  EXPECT_EQ(seen, caller);
}

/// Many short jobs with pauses between: workers that spin, workers that sleep, workers that wake late. Plain memory
/// handed from job to job: ThreadSanitizer sees a missing ordering.
TEST(ThreadPool, Stress) {
  ThreadPool pool(3);
  std::vector<uint64_t> cells(64, 0);
  for (int round = 0; round < 3000; ++round) {
    if (round % 500 == 499)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.parallelFor(cells.size(), round % 3 + 1, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i)
        cells[i] += i;
    });
    cells[0] += 1;
  }
  for (uint64_t i = 0; i < cells.size(); ++i)
    EXPECT_EQ(cells[i], 3000 * i + (i == 0 ? 3000 : 0));
}

TEST(ThreadPool, MadeAndDroppedWithoutWork) {
  for (int i = 0; i < 20; ++i)
    ThreadPool pool(4);
}

} // namespace
} // namespace ztc
