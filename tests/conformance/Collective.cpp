// What every communicator must do: the same suite for threads, Gloo and the sleeping decorator.
#include "runtime/Core/FloatTypes.h"
#include "tests/conformance/CommunicatorFactories.h"
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <malloc.h>

namespace ztc::test {
namespace {

class Collectives : public ::testing::TestWithParam<CommunicatorFactory> {
protected:
  /// The communicators of a world, or a skipped test where this build has no such transport.
  std::vector<std::unique_ptr<Communicator>> &make(uint32_t world) {
    ranks_ = {};
    auto made = GetParam().make(world);
    if (made.isOk())
      ranks_ = std::move(*made);
    else if (made.status().code() == StatusCode::FailedPrecondition)
      skipped_ = made.status().message();
    else
      ADD_FAILURE() << made.status().message();
    return ranks_.outer;
  }
  Ranks ranks_;
  std::string skipped_;
};

#define ZTC_MAKE(name, world)                                                                                          \
  auto &name = make(world);                                                                                            \
  if (!skipped_.empty())                                                                                               \
    GTEST_SKIP() << skipped_;                                                                                          \
  ASSERT_EQ(name.size(), size_t(world))

/// What rank r holds at index i: different everywhere, and sums of it round.
float value(uint32_t rank, uint64_t index) {
  uint64_t hash = (index * 8 + rank + 1) * 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9;
  return (float(hash >> 40) * 0x1p-24f - 0.5f) * float(1 + (index + rank) % 1000);
}

std::vector<float> values(uint32_t rank, uint64_t count) {
  std::vector<float> all(count);
  for (uint64_t i = 0; i < count; ++i)
    all[i] = value(rank, i);
  return all;
}

/// ((g0 + g1) + g2) + ...
std::vector<float> rankOrderSums(uint32_t world, uint64_t count) {
  std::vector<float> sums = values(0, count);
  for (uint32_t r = 1; r < world; ++r)
    for (uint64_t i = 0; i < count; ++i)
      sums[i] += value(r, i);
  return sums;
}

const std::vector<uint64_t> kSizes = {1, 2, 16, 63, 64, 65, 1000, 4096, 20001};

TEST_P(Collectives, AllGatherInPlaceAndOutOfPlace) {
  for (uint32_t world = 1; world <= 5; ++world) {
    ZTC_MAKE(ranks, world);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      for (uint64_t size : kSizes) {
        std::vector<float> want;
        for (uint32_t r = 0; r < world; ++r) {
          std::vector<float> shard = values(r, size);
          want.insert(want.end(), shard.begin(), shard.end());
        }
        std::vector<float> shard = values(rank, size), full(world * size, -1);
        Status status = communicator.allGather(shard.data(), full.data(), size, plan::F32, {"all_gather a"});
        EXPECT_TRUE(status.isOk()) << status.message();
        EXPECT_EQ(full, want) << world << " ranks, " << size << " elements";
        std::vector<float> inPlace(world * size, -1);
        std::copy(shard.begin(), shard.end(), inPlace.begin() + ptrdiff_t(rank * size));
        status = communicator.allGather(inPlace.data() + rank * size, inPlace.data(), size, plan::F32, {"b"});
        EXPECT_TRUE(status.isOk()) << status.message();
        EXPECT_EQ(inPlace, want) << world << " ranks, " << size << " elements, in place";
      }
    });
  }
}

TEST_P(Collectives, ReduceScatterSumsInRankOrderWhateverTheScratch) {
  for (uint32_t world = 1; world <= 5; ++world) {
    ZTC_MAKE(ranks, world);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      const uint64_t least = Communicator::minimumScratchBytes(world, 4);
      for (uint64_t size : kSizes) {
        const std::vector<float> want = rankOrderSums(world, world * size);
        for (uint64_t scratchBytes : {least, 3 * least + 20, 8 * size * world + least}) {
          if (scratchBytes == least && size > 1000)
            continue; // thousands of pieces show nothing new
          std::vector<float> full = values(rank, world * size);
          std::vector<std::byte> scratch(scratchBytes);
          Status status =
              communicator.reduceScatter(full.data(), size, plan::F32, scratch.data(), scratchBytes, {"block"});
          ASSERT_TRUE(status.isOk()) << status.message();
          EXPECT_EQ(std::memcmp(full.data() + rank * size, want.data() + rank * size, size * 4), 0)
              << world << " ranks, " << size << " elements, " << scratchBytes << " bytes of scratch";
        }
      }
    });
  }
}

/// Narrow types are added in f32 and rounded once.
TEST_P(Collectives, NarrowTypesRoundOnce) {
  struct Type {
    plan::DataType type;
    uint16_t (*narrow)(float);
    float (*widen)(uint16_t);
  };
  for (const Type &type : {Type{plan::BF16, toBf16, fromBf16}, Type{plan::F16, toF16, fromF16}}) {
    constexpr uint32_t world = 3;
    constexpr uint64_t size = 777;
    ZTC_MAKE(ranks, world);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      std::vector<uint16_t> full(world * size), want(size), scratch(1000);
      for (uint64_t i = 0; i < world * size; ++i)
        full[i] = type.narrow(value(rank, i));
      for (uint64_t i = 0; i < size; ++i) {
        float sum = type.widen(type.narrow(value(0, rank * size + i)));
        for (uint32_t r = 1; r < world; ++r)
          sum += type.widen(type.narrow(value(r, rank * size + i)));
        want[i] = type.narrow(sum);
      }
      Status status = communicator.reduceScatter(full.data(), size, type.type, scratch.data(), 2000, {"narrow"});
      ASSERT_TRUE(status.isOk()) << status.message();
      EXPECT_EQ(std::vector<uint16_t>(full.begin() + rank * size, full.begin() + (rank + 1) * size), want);
      std::vector<uint16_t> gathered(world * size);
      status = communicator.allGather(full.data() + rank * size, gathered.data(), size, type.type, {"narrow"});
      ASSERT_TRUE(status.isOk()) << status.message();
      EXPECT_EQ(std::memcmp(gathered.data() + rank * size, want.data(), 2 * size), 0);
    });
  }
}

TEST_P(Collectives, AllReduceAddsInRankOrder) {
  for (uint32_t world = 1; world <= 5; ++world) {
    ZTC_MAKE(ranks, world);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      for (uint64_t count : {1, 3, 64}) {
        std::vector<float> numbers = values(rank, count), scratch(world * count);
        Status status = communicator.allReduce(numbers.data(), count, scratch.data(), 4 * scratch.size(), {"norm"});
        EXPECT_TRUE(status.isOk()) << status.message();
        EXPECT_EQ(numbers, rankOrderSums(world, count));
      }
    });
  }
}

TEST_P(Collectives, AllReduceMaxFindsTheLargestAndNan) {
  for (uint32_t world = 1; world <= 5; ++world) {
    ZTC_MAKE(ranks, world);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      for (uint64_t count : {1, 3, 100}) {
        const auto number = [&](uint32_t r, uint64_t i) { return std::abs(value(r, i)); };
        std::vector<float> numbers(count), want(count), scratch(world * count);
        for (uint64_t i = 0; i < count; ++i) {
          numbers[i] = number(rank, i);
          for (uint32_t r = 0; r < world; ++r)
            want[i] = std::max(want[i], number(r, i));
        }
        const bool hasNan = count == 3;
        if (hasNan && rank == world - 1)
          numbers[1] = std::numeric_limits<float>::quiet_NaN();
        Status status = communicator.allReduceMax(numbers.data(), count, scratch.data(), 4 * scratch.size(), {"amax"});
        EXPECT_TRUE(status.isOk()) << status.message();
        EXPECT_EQ(std::isnan(numbers[hasNan ? 1 : 0]), hasNan);
        if (hasNan)
          numbers[1] = want[1];
        EXPECT_EQ(numbers, want);
        EXPECT_EQ(communicator.traffic().allGather, 0u) << "scalars are no gathers";
      }
    });
  }
}

TEST_P(Collectives, BarrierWaitsForAll) {
  ZTC_MAKE(ranks, 4);
  for (int round = 0; round < 20; ++round) {
    std::atomic<uint32_t> arrived{0};
    onAllRanks(ranks, [&](uint32_t, Communicator &communicator) {
      ++arrived;
      EXPECT_TRUE(communicator.barrier({}).isOk());
      EXPECT_EQ(arrived.load(), 4u);
    });
  }
}

TEST_P(Collectives, BytesAreCountedByKind) {
  ZTC_MAKE(ranks, 3);
  onAllRanks(ranks, [](uint32_t rank, Communicator &communicator) {
    std::vector<float> full(3 * 100), scratch(1000);
    EXPECT_EQ(communicator.traffic().sentBytes(), 0u);
    EXPECT_TRUE(communicator.allGather(full.data() + 100 * rank, full.data(), 100, plan::F32, {"x"}).isOk());
    EXPECT_TRUE(communicator.allGather(full.data() + 50 * rank, full.data(), 50, plan::F32, {"y"}).isOk());
    EXPECT_TRUE(communicator.reduceScatter(full.data(), 100, plan::F32, scratch.data(), 4000, {"z"}).isOk());
    EXPECT_TRUE(communicator.allReduce(full.data(), 1, scratch.data(), 4000, {"norm"}).isOk());
    EXPECT_TRUE(communicator.barrier({}).isOk());
    const Traffic traffic = communicator.traffic();
    EXPECT_EQ(traffic.allGather, 2u * (400 + 200));
    EXPECT_EQ(traffic.reduceScatter, 2u * 400);
    EXPECT_EQ(traffic.allReduce, 2u * 4);
    EXPECT_EQ(traffic.sentBytes(), 2u * (400 + 200 + 400));
  });
}

TEST_P(Collectives, AlternatingKindsInOneOrder) {
  constexpr uint32_t world = 3;
  constexpr uint64_t size = 640;
  ZTC_MAKE(ranks, world);
  onAllRanks(ranks, [](uint32_t rank, Communicator &communicator) {
    std::vector<float> scratch(2000);
    EXPECT_TRUE(communicator.registerMemory(reinterpret_cast<std::byte *>(scratch.data()), 8000).isOk());
    for (int step = 0; step < 50; ++step) {
      std::vector<float> full = values(rank, world * size);
      ASSERT_TRUE(communicator.reduceScatter(full.data(), size, plan::F32, scratch.data(), 8000, {"g"}).isOk());
      ASSERT_TRUE(communicator.allGather(full.data() + rank * size, full.data(), size, plan::F32, {"g"}).isOk());
      ASSERT_EQ(full, rankOrderSums(world, world * size));
      float norm = float(rank + 1);
      ASSERT_TRUE(communicator.allReduce(&norm, 1, scratch.data(), 8000, {"norm"}).isOk());
      ASSERT_EQ(norm, 6);
    }
  });
}

TEST_P(Collectives, AbortEndsBlockedCallsAndStays) {
  ZTC_MAKE(ranks, 2);
  std::promise<void> entered;
  Status status;
  std::thread blocked([&] {
    float full[64] = {};
    entered.set_value();
    status = ranks[0]->allGather(full, full, 32, plan::F32, {"all_gather block3"}); // rank 1 never comes
  });
  entered.get_future().wait();
  ranks[0]->abort("the watchdog said so");
  blocked.join();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_NE(status.message().find("the watchdog said so"), std::string::npos) << status.message();
  EXPECT_FALSE(ranks[0]->status().isOk());
  EXPECT_EQ(ranks[0]->barrier({}).code(), StatusCode::Unavailable);
  ranks[0]->abort("again");
  EXPECT_NE(ranks[0]->status().message().find("the watchdog said so"), std::string::npos);
}

TEST_P(Collectives, ALostRankIsNamed) {
  ZTC_MAKE(ranks, 3);
  std::vector<Status> statuses(3);
  onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
    EXPECT_TRUE(communicator.barrier({}).isOk());
    if (rank == 2) { // dies
      ranks[2].reset();
      if (!ranks_.inner.empty())
        ranks_.inner[2].reset();
      return;
    }
    std::vector<float> full(3 * 64), scratch(1000);
    statuses[rank] = communicator.reduceScatter(full.data(), 64, plan::F32, scratch.data(), 4000, {"block7"});
    EXPECT_FALSE(communicator.barrier({}).isOk());
  });
  for (uint32_t rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::Unavailable);
    EXPECT_NE(statuses[rank].message().find("reduce_scatter block7: rank 2 is lost"), std::string::npos)
        << statuses[rank].message();
  }
}

TEST_P(Collectives, DifferentCallsAreRefused) {
  struct Case {
    const char *what;
    std::function<Status(Communicator &, std::vector<float> &)> first, second;
  };
  auto gather = [](uint64_t size, const char *label) {
    return [=](Communicator &communicator, std::vector<float> &memory) {
      return communicator.allGather(memory.data() + size * communicator.rank(), memory.data(), size, plan::F32,
                                    {label});
    };
  };
  auto reduce = [](uint64_t scratch) {
    return [=](Communicator &communicator, std::vector<float> &memory) {
      return communicator.reduceScatter(memory.data(), 64, plan::F32, memory.data() + 1000, scratch, {"a"});
    };
  };
  for (const Case &each :
       {Case{"128 f32 elements", gather(64, "a"), gather(128, "a")},
        Case{"all_gather b", gather(64, "a"), gather(64, "b")}, Case{"reduce_scatter a", gather(64, "a"), reduce(2000)},
        Case{"4000 bytes of scratch", reduce(2000), reduce(4000)}}) {
    ZTC_MAKE(ranks, 2);
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      std::vector<float> memory(3000);
      Status status = (rank == 0 ? each.first : each.second)(communicator, memory);
      EXPECT_EQ(status.code(), StatusCode::FailedPrecondition) << status.message();
      EXPECT_NE(status.message().find(each.what), std::string::npos) << status.message();
    });
  }
}

TEST_P(Collectives, NonsenseIsRefused) {
  ZTC_MAKE(ranks, 2);
  std::vector<float> memory(1000);
  EXPECT_EQ(ranks[0]->reduceScatter(memory.data(), 64, plan::F32, memory.data() + 500, 100, {"a"}).code(),
            StatusCode::InvalidArgument);
  ZTC_MAKE(others, 2);
  EXPECT_EQ(others[1]->allGather(memory.data(), memory.data(), 64, plan::F32, {"a"}).code(),
            StatusCode::InvalidArgument);
  ZTC_MAKE(third, 2);
  EXPECT_EQ(third[1]->reduceScatter(memory.data(), 64, plan::I32, memory.data() + 500, 2000, {"a"}).code(),
            StatusCode::InvalidArgument);
}

/// Hundreds of calls leave the heap as it was.
TEST_P(Collectives, NothingGrows) {
  ZTC_MAKE(ranks, 2);
  auto calls = [&](int count) {
    onAllRanks(ranks, [&](uint32_t rank, Communicator &communicator) {
      std::vector<float> full(2 * 256), scratch(512);
      for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(communicator.reduceScatter(full.data(), 256, plan::F32, scratch.data(), 2048, {"a"}).isOk());
        ASSERT_TRUE(communicator.allGather(full.data() + rank * 256, full.data(), 256, plan::F32, {"a"}).isOk());
      }
    });
  };
  calls(100);
  const size_t before = mallinfo2().uordblks;
  calls(400);
  const size_t after = mallinfo2().uordblks;
  EXPECT_LT(after, before + 16384);
}

INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         ::testing::Values(CommunicatorFactory{"threads", makeThreads},
                                           CommunicatorFactory{"sleeping", makeSleeping},
                                           CommunicatorFactory{"gloo", makeGloo}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(SleepingCommunicator, SleepsForItsBytes) {
  auto inner = createThreadCommunicators(2);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (const auto &communicator : inner)
    ranks.push_back(createSleepingCommunicator(*communicator, 1e6));
  onAllRanks(ranks, [](uint32_t rank, Communicator &communicator) {
    std::vector<float> full(2 * 5000);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(communicator.allGather(full.data() + rank * 5000, full.data(), 5000, plan::F32, {"a"}).isOk());
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  });
}

TEST(SleepingCommunicator, AbortEndsTheSleep) {
  auto inner = createThreadCommunicators(2);
  auto slow = createSleepingCommunicator(*inner[0], 1); // hours
  std::promise<void> gathered;
  std::thread other([&] {
    std::vector<float> full(2 * 5000);
    EXPECT_TRUE(inner[1]->allGather(full.data() + 5000, full.data(), 5000, plan::F32, {"a"}).isOk());
    gathered.set_value();
  });
  std::thread end([&] {
    gathered.get_future().wait();
    slow->abort("enough");
  });
  std::vector<float> full(2 * 5000);
  EXPECT_EQ(slow->allGather(full.data(), full.data(), 5000, plan::F32, {"a"}).code(), StatusCode::Unavailable);
  other.join();
  end.join();
}

} // namespace
} // namespace ztc::test
