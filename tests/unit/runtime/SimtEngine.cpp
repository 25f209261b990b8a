// The engine that runs GPU kernels on this processor.
#include "runtime/Core/FloatTypes.h"
#include "tests/standin/Simt.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

namespace ztc::simt {
namespace {

class SimtEngine : public ::testing::Test {
protected:
  void SetUp() override {
    std::ifstream file(ZTC_STANDIN_KERNELS, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    ASSERT_TRUE(Image::isImage(bytes));
    auto loaded = Image::load(bytes);
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    image_ = std::move(*loaded);
  }
  std::unique_ptr<Image> image_;
};

/// Rows of `x` summed by `threads` threads.
std::vector<float> sumRows(const Image &image, std::vector<float> &x, int64_t rows, uint32_t threads, Order order,
                           Counters *counters = nullptr) {
  std::vector<float> sums(static_cast<size_t>(rows));
  float *operands[] = {x.data(), sums.data()};
  int64_t width = int64_t(x.size()) / rows;
  void *parameters[] = {&operands[0], &operands[1], &width, &rows};
  const Status status = launch(image.find("row_sum"), {{uint32_t(rows)}, {threads}, order}, parameters, counters);
  EXPECT_TRUE(status.isOk()) << status.message();
  return sums;
}

TEST_F(SimtEngine, BlocksWarpsBarriersAndShuffles) {
  std::vector<float> x(5 * 1000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i % 17);
  for (uint32_t threads : {32u, 96u, 256u, 1024u}) {
    Counters counters;
    const std::vector<float> sums = sumRows(*image_, x, 5, threads, Order::Ascending, &counters);
    for (size_t row = 0; row < 5; ++row) {
      float want = 0;
      for (size_t c = 0; c < 1000; ++c)
        want += x[row * 1000 + c];
      EXPECT_EQ(sums[row], want) << threads;
    }
    EXPECT_EQ(sums, sumRows(*image_, x, 5, threads, Order::Descending)) << threads;
    EXPECT_EQ(counters.blocks, 5u);
    EXPECT_EQ(counters.barriers, 5u);
    EXPECT_EQ(counters.warpOperations, 5u * 5 * (threads / 32 + 1));
    EXPECT_EQ(counters.readBytes, 5u * 1000 * 4);
    EXPECT_EQ(counters.writtenBytes, 5u * 4);
  }
}

TEST_F(SimtEngine, LaunchesOfSeveralThreadsTakeTurns) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      std::vector<float> x(7 * 64, 1);
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(sumRows(*image_, x, 7, 64, Order::Ascending), std::vector<float>(7, 64));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(SimtEngine, WrongKernelsAreTold) {
  std::vector<float> y(32);
  float *operand = y.data();
  void *parameters[] = {&operand};
  const auto error = [&](const char *kernel, uint32_t threads) {
    return launch(image_->find(kernel), {{1}, {threads}}, parameters).message();
  };
  EXPECT_EQ(error("leaves_out_a_barrier", 3),
            "block (0, 0, 0) cannot go on: thread 0 has returned, thread 1 waits at a "
            "barrier of the block");
  EXPECT_EQ(error("shuffles_with_nobody", 16), "block (0, 0, 0), thread (15, 0, 0): a shuffle that reads from a lane "
                                               "outside its mask or its block");
  EXPECT_EQ(error("shuffles_with_nobody", 32), "");
  EXPECT_EQ(error("shuffles_with_one_that_left", 32),
            "block (0, 0, 0) cannot go on: thread 0 waits at a shuffle with mask 0xffffffff, thread 3 has returned, "
            "thread 4 waits at a shuffle with mask 0xffffffff");
  EXPECT_EQ(error("writes_what_others_write", 1), "");
  EXPECT_EQ(launch(image_->find("writes_what_others_write"), {{2}, {1}}, parameters).message(),
            "block (1, 0, 0), thread (0, 0, 0): a write to what another block of the grid has read or written");
  static float *allowed = nullptr;
  allowed = operand;
  setMemoryCheck([](const void *address, uint64_t bytes) {
    return address >= allowed && static_cast<const char *>(address) + bytes <= reinterpret_cast<char *>(allowed + 32);
  });
  EXPECT_EQ(error("reads_outside", 1), "block (0, 0, 0), thread (0, 0, 0): a read outside of allocated memory");
  setMemoryCheck(nullptr);
}

TEST_F(SimtEngine, ThreadsThatNoBarrierOrdersAreTold) {
  std::vector<float> y(64);
  float *operand = y.data();
  const auto error = [&](int64_t barrier, uint32_t threads, Order order) {
    void *parameters[] = {&operand, &barrier};
    return launch(image_->find("reads_the_next"), {{1}, {threads}, order}, parameters).message();
  };
  enum { None, OfBlock, OfWarp };
  for (Order order : {Order::Ascending, Order::Descending}) {
    EXPECT_EQ(error(None, 1, order), ""); // its own
    EXPECT_THAT(error(None, 2, order), ::testing::HasSubstr("another thread"));
    EXPECT_EQ(error(OfBlock, 64, order), "");
    EXPECT_EQ(error(OfWarp, 32, order), "");
    EXPECT_THAT(error(OfWarp, 64, order), ::testing::HasSubstr("another thread"));
  }
  EXPECT_EQ(error(None, 2, Order::Descending),
            "block (0, 0, 0), thread (0, 0, 0): a write to what another thread has read or written, and no barrier in "
            "between");
}

TEST_F(SimtEngine, AccessesOutsideOfSharedMemoryAreTold) {
  const auto error = [&](int64_t offset, int64_t writes) {
    void *parameters[] = {&offset, &writes};
    return launch(image_->find("touches_shared_memory"), {{1}, {1}}, parameters).message();
  };
  for (int64_t writes : {0, 1}) {
    for (int64_t inside : {0, 31})
      EXPECT_EQ(error(inside, writes), "");
    for (int64_t outside : {-1, 32, 1 << 20})
      EXPECT_EQ(error(outside, writes), std::string("block (0, 0, 0), thread (0, 0, 0): a ") +
                                            (writes ? "write" : "read") + " outside of the kernel's shared memory");
  }
}

TEST_F(SimtEngine, MatricesAreMultipliedByWholeWarps) {
  uint16_t a[16 * 16], b[16 * 8];
  float c[16 * 8] = {}, *result = c;
  for (int i = 0; i < 256; ++i)
    a[i] = toBf16(float(i * 7 % 23 - 11));
  for (int i = 0; i < 128; ++i)
    b[i] = toBf16(float(i * 5 % 19 - 9));
  uint16_t *left = a, *right = b;
  void *parameters[] = {&left, &right, &result};
  const Entry kernel = image_->find("multiplies_matrices");
  ASSERT_TRUE(launch(kernel, {{1}, {32}}, parameters).isOk());
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += fromBf16(a[row * 16 + k]) * fromBf16(b[k * 8 + column]);
      EXPECT_EQ(c[row * 8 + column], sum) << row << ", " << column;
    }
  EXPECT_EQ(launch(kernel, {{1}, {16}}, parameters).message(),
            "block (0, 0, 0), thread (0, 0, 0): an operation of a whole warp, some of whose lanes have returned or are "
            "not there");
}

TEST_F(SimtEngine, CopiesAreThereForWhoHasWaitedForThem) {
  std::vector<float> x(64 * 4), y(64);
  std::iota(x.begin(), x.end(), 1.0f);
  float *from = x.data(), *to = y.data();
  const auto run = [&](int64_t bytes, int64_t pending, int64_t barrier, Order order) {
    void *parameters[] = {&from, &to, &bytes, &pending, &barrier};
    return launch(image_->find("copies_beside"), {{1}, {64}, order}, parameters).message();
  };
  for (Order order : {Order::Ascending, Order::Descending}) {
    EXPECT_EQ(run(16, 1, 1, order), ""); // the empty group may be on its way
    for (size_t thread = 0; thread < y.size(); ++thread)
      EXPECT_EQ(y[thread], x[(thread + 1) % y.size() * 4]);
    EXPECT_EQ(run(0, 0, 1, order), "");
    EXPECT_EQ(y, std::vector<float>(y.size(), 0)) << "what is not read is 0";
    EXPECT_EQ(run(16, 2, 1, order), "");
    EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](float number) { return std::isnan(number); }))
        << "the copy was read before a wait";
    EXPECT_THAT(run(16, 0, 0, order), ::testing::HasSubstr("another thread"));
    EXPECT_THAT(run(17, 0, 1, order), ::testing::HasSubstr("a copy of more bytes than it has room for"));
  }
}

TEST_F(SimtEngine, ShapesThatNoGpuTakes) {
  for (const LaunchShape &shape : {LaunchShape{{0}, {1}}, {{1}, {1025}}, {{1}, {32, 32, 2}}, {{1, 65536}, {1}}})
    EXPECT_EQ(launch(image_->find("leaves_out_a_barrier"), shape, nullptr).code(), StatusCode::InvalidArgument);
}

TEST(SimtImage, WhatIsNoImageIsTold) {
  EXPECT_FALSE(Image::isImage("\x7f"
                              "ELF"));
  EXPECT_FALSE(Image::load("nonsense").isOk());
}

} // namespace
} // namespace ztc::simt
