#include "runtime/Device/host/ThreadPool.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

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

TEST(ThreadPool, EveryElementOnceInMultiplesOfTheGrain) {
  ThreadPool pool(3);
  for (uint64_t extent : {17ull, 1000ull, 70001ull, 3000000ull}) // the last: more grains than a job has units
    for (uint64_t grain : {1ull, 16ull}) {
      std::vector<uint8_t> count(extent, 0);
      pool.parallelFor(extent, grain, [&](uint32_t worker, uint64_t begin, uint64_t end) {
        EXPECT_LT(worker, 3u);
        EXPECT_TRUE(begin % grain == 0 && (end % grain == 0 || end == extent));
        for (uint64_t i = begin; i < end; ++i)
          ++count[i];
      });
      EXPECT_EQ(std::count(count.begin(), count.end(), 1), int64_t(extent));
    }
}

/// A worker that is stuck keeps one piece, not the rest of its part.
TEST(ThreadPool, OthersDoWhatAStuckWorkerLeaves) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done{0};
    pool.forEach(1000, [&](uint32_t worker, uint64_t index) {
      // Its first piece is a third of its half.
      while (worker == 1 && index == 500 && done.load() < 800)
        std::this_thread::yield();
      ++done;
    });
    EXPECT_EQ(done.load(), 1000);
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

TEST(ThreadPool, EveryWorkerHasARowOfATrace) {
  ThreadPool pool(2);
  TraceRecorder trace(4);
  TraceRecorder::currentLabel = trace.addLabel("the step", "microstep");
  pool.setTrace(&trace);
  std::atomic<int> arrived{0};
  pool.forEach(2, [&](uint32_t, uint64_t) {
    for (++arrived; arrived.load() < 2;) // one each
      std::this_thread::yield();
  });
  pool.setTrace(nullptr);
  TraceRecorder::currentLabel = 0;
  std::map<int, std::string> tracks;
  std::set<std::string> seen;
  const nlohmann::json timeline = nlohmann::json::parse(trace.json(0));
  for (const nlohmann::json &event : timeline["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name")
      tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X" && event["name"] == "the step")
      seen.insert(tracks[event["tid"]]);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"worker 0", "worker 1"}));
}

TEST(ThreadPool, MadeAndDroppedWithoutWork) {
  for (int i = 0; i < 20; ++i)
    ThreadPool pool(4);
}

} // namespace
} // namespace ztc
