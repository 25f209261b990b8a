// Rows by index, and bytes that move.
#include "tests/conformance/NarrowValues.h"
#include <numeric>

namespace ztc::test {
namespace {

void expectGather(size_t width, const std::string &gpuKernel) {
  std::vector<float> table = randomFloats(50 * width, 1);
  std::vector<int32_t> indices;
  for (int32_t i = 0; i < 70; ++i)
    indices.push_back(i * 17 % 50);
  for (uint32_t threads : {1u, 2u}) {
    StepRunner runner;
    uint32_t tableSlot = runner.slot(table), indexSlot = runner.slot(indices),
             result = runner.scratch(70 * width * 4, false);
    plan::Gather &gather = *runner.step("gather", {tableSlot, indexSlot, result})->mutable_gather();
    gather.set_rows(70);
    gather.set_row_bytes(width * 4);
    gather.set_table_rows(50);
    runner.useGpuKernels(gather, {gpuKernel});
    runner.runOnce(threads);
    std::vector<float> got = runner.read(result, 70 * width);
    for (size_t i = 0; i < indices.size(); ++i)
      for (size_t c = 0; c < width; ++c)
        EXPECT_EQ(got[i * width + c], table[size_t(indices[i]) * width + c]);
  }
}

TEST(EmbeddingConformance, Gather) {
  expectGather(12, "gpu_gather_16");
  expectGather(600, "gpu_gather_16"); // more than a warp takes at once
  expectGather(14, "gpu_gather_8");
  expectGather(7, "gpu_gather_4");
}

/// What becomes of a gather by `tokens` from a table of 50 rows.
Status gatherTokens(StepRunner &runner, const std::vector<int32_t> &tokens) {
  const uint32_t table = runner.slot(randomFloats(50 * 4, 1)), indices = runner.slot(tokens);
  const uint32_t result = runner.scratch(tokens.size() * 16, false);
  plan::Gather &gather = *runner.step("gather", {table, indices, result})->mutable_gather();
  gather.set_rows(tokens.size());
  gather.set_row_bytes(16);
  gather.set_table_rows(50);
  runner.useGpuKernels(gather, {"gpu_gather_16"});
  EXPECT_TRUE(runner.prepare(1).isOk());
  Status status = runner.run();
  return status.isOk() ? runner.device().synchronize() : status;
}

TEST(EmbeddingConformance, TokenOutsideTheTableIsAnError) {
  for (int32_t token : {-1, 50}) {
    StepRunner runner;
    const Status status = gatherTokens(runner, {3, token});
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(
        status.message().find("index " + std::to_string(token) + " at position 1 is outside the table of 50 rows"),
        std::string::npos)
        << status.message();
    EXPECT_TRUE(runner.device().synchronize().isOk()) << "it is told once";
  }
}

TEST(EmbeddingConformance, OfSeveralWrongTokensOneIsTold) {
  StepRunner runner;
  const Status status = gatherTokens(runner, std::vector<int32_t>(40, 50));
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("is outside the table of 50 rows: a token of another vocabulary, or computed"),
            std::string::npos)
      << status.message();
}

TEST(EmbeddingConformance, TokenOutsideTheTableIsAddedNowhere) {
  for (int32_t token : {-7, 3}) {
    StepRunner runner;
    uint32_t indices = runner.slot(std::vector<int32_t>{2, token, 2}), dy = runner.slot(std::vector<float>(12, 1));
    uint32_t table = runner.slot(std::vector<float>(12, 5));
    plan::ScatterAdd &scatter = *runner.step("scatter", {indices, dy, table})->mutable_scatter_add();
    scatter.set_rows(3);
    scatter.set_width(4);
    scatter.set_table_rows(3);
    scatter.set_accumulate(plan::ADD);
    scatter.set_type(plan::F32);
    runner.useGpuKernels(scatter, {"gpu_scatter_add_4"});
    ASSERT_TRUE(runner.prepare(1).isOk());
    Status status = runner.run();
    if (status.isOk())
      status = runner.device().synchronize();
    const std::string want = "index " + std::to_string(token) + " at position 1 is outside the table of 3 rows";
    EXPECT_NE(status.message().find(want), std::string::npos) << status.message();
    EXPECT_EQ(runner.read(table, 12), (std::vector<float>{5, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7}));
  }
}

/// dtable after adding dy in order of position, starting from `start`.
std::vector<float> scatterReference(const std::vector<int32_t> &indices, const std::vector<float> &dy, size_t width,
                                    std::vector<float> start) {
  for (size_t i = 0; i < indices.size(); ++i)
    for (size_t c = 0; c < width; ++c)
      start[size_t(indices[i]) * width + c] += dy[i * width + c];
  return start;
}

TEST(EmbeddingConformance, ScatterAddIsInOrderOfPosition) {
  for (size_t width : {40u, 7u, 1100u}) {
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < 90; ++i)
      indices.push_back(i * i % 20);
    std::vector<float> dy = randomFloats(90 * width, 2), before = randomFloats(20 * width, 3);
    for (plan::DataType type : {plan::F32, plan::BF16, plan::F16})
      for (plan::Accumulate accumulate : {plan::OVERWRITE, plan::ADD})
        for (uint32_t threads : {1u, 2u, 3u}) {
          roundTo(dy, type);
          StepRunner runner;
          uint32_t indexSlot = runner.slot(indices), dySlot = typedSlot(runner, dy, type), table = runner.slot(before);
          plan::ScatterAdd &scatter = *runner.step("scatter", {indexSlot, dySlot, table})->mutable_scatter_add();
          scatter.set_rows(90);
          scatter.set_width(width);
          scatter.set_table_rows(20);
          scatter.set_accumulate(accumulate);
          scatter.set_type(type);
          const size_t lanes = std::gcd(width, size_t(type == plan::F32 ? 4 : 8));
          runner.useGpuKernels(scatter, {"gpu_scatter_add" + gpuSuffix(type) + "_" + std::to_string(lanes)});
          runner.runOnce(threads);
          std::vector<float> start = accumulate == plan::ADD ? before : std::vector<float>(before.size(), 0);
          EXPECT_TRUE(sameBits(runner.read(table, 20 * width), scatterReference(indices, dy, width, start)));
        }
  }
}

TEST(TransferConformance, NarrowInPlaceAndNot) {
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (size_t count : {size_t(64), size_t(16384), size_t(100032)})
      for (bool inPlace : {false, true})
        for (uint32_t threads : {1u, 3u}) {
          const std::vector<float> values = randomFloats(count, 1);
          StepRunner runner;
          const uint32_t from = runner.slot(values), to = inPlace ? from : runner.scratch(count * 2, false);
          plan::Narrow &narrow = *runner.step("narrow", {from, to})->mutable_narrow();
          narrow.set_from(plan::F32);
          narrow.set_to(type);
          runner.useGpuKernels(narrow, {"gpu_narrow" + gpuSuffix(type)});
          runner.runOnce(threads);
          std::vector<float> want = values;
          roundTo(want, type);
          EXPECT_TRUE(sameBits(readTyped(runner, to, count, type), want)) << count << " elements, in place " << inPlace;
          EXPECT_EQ(sameBits(runner.read(from, count), values), !inPlace);
        }
}

TEST(TransferConformance, CopyAndFill) {
  std::vector<float> values = randomFloats(100000, 1);
  StepRunner runner;
  uint32_t from = runner.slot(values), to = runner.scratch(400000, false), filled = runner.scratch(300000, false);
  plan::Step *copy = runner.step("copy", {from, to});
  copy->mutable_copy()->set_bytes(400000);
  plan::Step *fill = runner.step("fill", {filled});
  fill->mutable_fill()->set_value(0x5a);
  fill->mutable_operands(0)->set_offset(100);
  fill->mutable_operands(0)->set_bytes(200000);
  runner.runOnce(2);
  EXPECT_TRUE(sameBits(runner.read(to, values.size()), values));
  std::vector<uint8_t> bytes = runner.read<uint8_t>(filled, 300000);
  for (size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(bytes[i], i >= 100 && i < 200100 ? 0x5a : 0) << i;
}

} // namespace
} // namespace ztc::test
