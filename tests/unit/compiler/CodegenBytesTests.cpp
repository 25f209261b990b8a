// The bytes of memory that the kernels of a GPU's library calls move, on the SIMT engine: what shapes and tilings say,
// exactly. Threads that read the same number side by side count one by one: a GPU serves them with one access.
#include "KernelHarness.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/ScratchSizes.h"
#include <bit>
#include <gtest/gtest.h>
#include <numeric>

using namespace ztc;
using namespace ztc::test;

namespace {
mlir::Type f32() {
  return mlir::Float32Type::get(&kernelContext());
}
mlir::Type bf16() {
  return mlir::BFloat16Type::get(&kernelContext());
}
mlir::Type f16() {
  return mlir::Float16Type::get(&kernelContext());
}
uint64_t bytesOf(mlir::Type type) {
  return type.getIntOrFloatBitWidth() / 8;
}

using Counts = std::vector<uint64_t>; ///< bytes, by the kernel's buffer
Bytes zeros(uint64_t bytes) {
  return Bytes(bytes, 0);
}
Bytes indices(const std::vector<int32_t> &values) {
  const char *begin = reinterpret_cast<const char *>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(int32_t));
}

/// Kernels for the engine; those of one test share a module.
struct Engine {
  KernelModule module{kernelContext(), {/*host=*/false, /*device=*/true}};
  std::unique_ptr<simt::Image> image;

  void load() {
    auto images = module.emit({"simt"});
    ASSERT_TRUE(succeeded(images));
    auto loaded = simt::Image::load(images->front().bytes);
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    image = std::move(*loaded);
  }

  void expectMoved(const KernelDescription &kernel, std::vector<Bytes> buffers, std::vector<int64_t> scalars,
                   int64_t extent, const Counts &expected) {
    std::vector<Bytes *> operands;
    for (Bytes &buffer : buffers)
      operands.push_back(&buffer);
    Counts moved;
    ASSERT_TRUE(launchOnGpu(*image, kernel, operands, std::move(scalars), extent, simt::Order::Ascending, &moved));
    EXPECT_EQ(moved, expected) << kernel.name;
  }
};

/// A call of attention: `window` 0 is none.
struct Call {
  int64_t batch, seq, heads, kvHeads, dim, window;
  bool causal;
  mlir::Type type;
};

/// A block goes over columns in tiles. By matrix instructions it keeps its rows, and lanes in groups of four share a
/// row; else it reads its rows again for each tile, and eight threads share a row.
struct Tiling {
  bool matrices;
  int64_t rows, columns; ///< of a tile

  Tiling(const Call &call, const KernelDescription &kernel, bool ofKeys, bool grad)
      : matrices(bytesOf(call.type) == 2 && call.dim % 16 == 0 && call.dim <= 128), rows(kernel.device.unitsPerBlock) {
    if (!matrices)
      columns = 32;
    else if (ofKeys && call.dim > 96)
      columns = 16;
    else
      columns = grad && call.dim > 64 ? 32 : 64;
  }
};

/// Of the block whose first row is `row`: its rows, the tiles it goes over, the columns in them that there are.
struct BlockOfRows {
  uint64_t rows, tiles, columns;

  BlockOfRows(const Call &call, const Tiling &tiling, int64_t row, bool ofKeys) {
    int64_t begin = 0, end = call.seq;
    if (call.causal && ofKeys) { // queries from the first key on, until the last key is out of sight
      begin = row;
      end = call.window ? std::min(end, row + tiling.rows - 1 + call.window) : end;
    } else if (call.causal) { // keys up to the last query, from the first that is in sight
      begin = call.window ? std::max<int64_t>(row - call.window + 1, 0) / tiling.columns * tiling.columns : 0;
      end = std::min(end, row + tiling.rows);
    }
    rows = uint64_t(std::min(tiling.rows, call.seq - row));
    tiles = uint64_t((end - begin + tiling.columns - 1) / tiling.columns);
    columns = uint64_t(std::min(call.seq, begin + int64_t(tiles) * tiling.columns) - begin);
  }
};

/// Sums over the blocks of one head.
struct Sums {
  uint64_t rows = 0, rowsByTile = 0, columns = 0;

  Sums(const Call &call, const Tiling &tiling, bool ofKeys) {
    for (int64_t row = 0; row < call.seq; row += tiling.rows) {
      const BlockOfRows block(call, tiling, row, ofKeys);
      rows += block.rows;
      rowsByTile += block.tiles * block.rows;
      columns += block.columns;
    }
  }
};

/// The bytes of the forward kernel: q, k, v, out, lse.
Counts forwardBytes(const Call &call, const Tiling &tiling) {
  const Sums sums(call, tiling, /*ofKeys=*/false);
  const uint64_t all = call.batch * call.heads, row = call.dim * bytesOf(call.type);
  const uint64_t own = tiling.matrices ? sums.rows : sums.rowsByTile;
  return {all * own * row, all * sums.columns * row, all * sums.columns * row, all * sums.rows * row,
          all * sums.rows * 4};
}

/// q, k, v, dout, lse, delta, dk, dv. Statistics of a query tile are read by the threads that share its columns.
Counts keyGradBytes(const Call &call, const Tiling &tiling) {
  const Sums sums(call, tiling, /*ofKeys=*/true);
  const uint64_t pairs = call.batch * call.kvHeads, all = call.batch * call.heads, row = call.dim * bytesOf(call.type);
  const uint64_t own = tiling.matrices ? pairs * sums.rows : all * sums.rowsByTile; // else again for each head
  const uint64_t times = tiling.matrices ? 1 : 2, sharers = tiling.matrices ? 32 : 16;
  const uint64_t queries = times * all * sums.columns * row, statistics = all * sums.columns * sharers * 4;
  return {
      queries, own * row, own * row, queries, statistics, statistics, pairs * sums.rows * row, pairs * sums.rows * row};
}

/// q, k, v, dout, lse, delta, dq. K is a factor of two products.
Counts queryGradBytes(const Call &call, const Tiling &tiling) {
  const Sums sums(call, tiling, /*ofKeys=*/false);
  const uint64_t all = call.batch * call.heads, row = call.dim * bytesOf(call.type);
  const uint64_t own = all * (tiling.matrices ? sums.rows : sums.rowsByTile) * row;
  const uint64_t times = tiling.matrices ? 1 : 2, sharers = tiling.matrices ? 4 : 8;
  const uint64_t keys = all * sums.columns * row, statistics = all * sums.rows * sharers * 4;
  return {own, times * keys, keys, own, statistics, statistics, all * sums.rows * row};
}

void expectAttentionBytes(const Call &call) {
  SCOPED_TRACE(testing::Message() << "S" << call.seq << " H" << call.heads << "/" << call.kvHeads << " D" << call.dim
                                  << " window " << call.window << (call.causal ? "" : " not causal"));
  Engine engine;
  const AttentionForm form{call.dim, call.causal, call.window != 0, call.type};
  std::vector<KernelDescription> kernels = engine.module.addGpuAttention(form, /*grad=*/false);
  for (const KernelDescription &kernel : engine.module.addGpuAttention(form, /*grad=*/true))
    kernels.push_back(kernel);
  engine.load();
  ASSERT_TRUE(engine.image && kernels.size() == 4);
  const uint64_t rows = call.batch * call.seq, element = bytesOf(call.type);
  const Bytes q = zeros(rows * call.heads * call.dim * element), kv = zeros(rows * call.kvHeads * call.dim * element),
              statistic = zeros(rows * call.heads * 4);
  const Tiling forward(call, kernels[0], false, false), keys(call, kernels[2], true, true),
      queries(call, kernels[3], false, true);
  auto expect = [&](const KernelDescription &kernel, int64_t heads, const std::vector<Bytes> &buffers,
                    const Counts &expected) {
    const int64_t unit = kernel.device.unitsPerBlock;
    engine.expectMoved(
        kernel, buffers,
        {call.seq, call.heads, call.kvHeads, call.window, std::bit_cast<int32_t>(1 / std::sqrt(float(call.dim)))},
        call.batch * heads * int64_t(llvm::alignTo(call.seq, unit)), expected);
  };
  expect(kernels[0], call.heads, {q, kv, kv, q, statistic}, forwardBytes(call, forward));
  expect(kernels[1], call.heads, {q, q, statistic}, {q.size(), q.size(), statistic.size()});
  expect(kernels[2], call.kvHeads, {q, kv, kv, q, statistic, statistic, kv, kv}, keyGradBytes(call, keys));
  expect(kernels[3], call.heads, {q, kv, kv, q, statistic, statistic, q}, queryGradBytes(call, queries));
}
} // namespace

TEST(CodegenBytes, AttentionByMatrices) {
  expectAttentionBytes({2, 150, 4, 2, 16, 0, true, bf16()});
  expectAttentionBytes({1, 130, 2, 2, 80, 0, true, f16()});
  expectAttentionBytes({1, 100, 2, 1, 128, 0, true, bf16()});
  expectAttentionBytes({1, 200, 2, 1, 16, 40, true, bf16()});
  expectAttentionBytes({1, 150, 2, 1, 16, 0, false, f16()});
}

TEST(CodegenBytes, AttentionByMultiplyAdds) {
  expectAttentionBytes({2, 70, 4, 2, 16, 0, true, f32()});
  expectAttentionBytes({1, 70, 2, 1, 24, 0, true, bf16()});
  expectAttentionBytes({1, 70, 2, 1, 7, 0, true, f32()});
  expectAttentionBytes({1, 70, 2, 1, 160, 0, true, f32()});
  expectAttentionBytes({1, 150, 2, 1, 8, 40, true, f32()});
  expectAttentionBytes({1, 70, 2, 1, 8, 0, false, f32()});
}

// Logits are read for the softmax and for their cotangents, which take their places, in whole vectors; rows without a
// target are filled with zeros unread.
TEST(CodegenBytes, CrossEntropyRows) {
  const std::vector<int32_t> targets{3, -100, 0, 998};
  const uint64_t counted = 3, rows = targets.size();
  Engine engine;
  std::vector<std::tuple<KernelDescription, uint64_t, mlir::Type, bool>> kernels;
  for (int64_t vocabulary : {2048, 2052, 999})
    for (mlir::Type type : {f32(), bf16(), f16()})
      for (bool training : {true, false})
        kernels.emplace_back(engine.module.addGpuCrossEntropyRows(training, type, vocabulary), vocabulary, type,
                             training);
  engine.load();
  ASSERT_TRUE(engine.image);
  for (const auto &[kernel, vocabulary, type, training] : kernels) {
    const uint64_t everyThread = kernel.device.blockThreads * 4; // the row's target, the scale
    const uint64_t vectors = (vocabulary * bytesOf(type) + 15) / 16 * 16;
    const Bytes logits = zeros(rows * gpuLogitStride(vocabulary) * bytesOf(type)), losses = zeros(rows * 4);
    const uint64_t read = counted * ((training ? 2 : 1) * vectors + kernel.device.blockThreads * bytesOf(type));
    if (training)
      engine.expectMoved(
          kernel, {logits, indices(targets), zeros(4), losses}, {int64_t(vocabulary)}, int64_t(rows),
          {read + rows * vectors + counted * bytesOf(type), rows * everyThread, counted * everyThread, rows * 4});
    else
      engine.expectMoved(kernel, {logits, indices(targets), losses}, {int64_t(vocabulary)}, int64_t(rows),
                         {read, rows * everyThread, rows * 4});
  }
}

TEST(CodegenBytes, LossSum) {
  Engine engine;
  const KernelDescription kernel = engine.module.addGpuLossSum();
  engine.load();
  ASSERT_TRUE(engine.image);
  engine.expectMoved(kernel, {zeros(1000 * 4), zeros(4)}, {1000, 0}, 1, {1000 * 4, 4});
  engine.expectMoved(kernel, {zeros(1000 * 4), zeros(4)}, {1000, 1}, 1, {1000 * 4, 8});
}

// A warp moves a row: once from the table, once into the result.
TEST(CodegenBytes, Gather) {
  const std::vector<int32_t> rows{4, 0, 4, 7, 2}; // of a table of 6: one is none
  const uint64_t good = 4, warp = 32;
  Engine engine;
  std::vector<std::pair<KernelDescription, uint64_t>> kernels;
  for (uint64_t rowBytes : {2048, 1032, 100, 62})
    kernels.emplace_back(engine.module.addGpuGather(int64_t(rowBytes)), rowBytes);
  engine.load();
  ASSERT_TRUE(engine.image);
  for (const auto &[kernel, rowBytes] : kernels)
    engine.expectMoved(kernel, {zeros(6 * rowBytes), indices(rows), zeros(rows.size() * rowBytes), zeros(8)},
                       {int64_t(rowBytes / std::gcd(rowBytes, uint64_t(16))), 6}, int64_t(rows.size()),
                       {good * rowBytes, rows.size() * warp * 4, good * rowBytes, warp * 8});
}

// A row of dy is read once; the table's row is read and written for each of them. Every block looks through the indices
// before its own, and the first of an index through those after it, a number a thread.
TEST(CodegenBytes, ScatterAdd) {
  std::vector<int32_t> rows(1300);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = int32_t(i * i % 40);
  rows[17] = 40; // no row
  Engine engine;
  std::vector<std::tuple<KernelDescription, uint64_t, uint64_t>> kernels;
  for (mlir::Type type : {f32(), bf16(), f16()})
    for (uint64_t width : {64, 36, 33})
      kernels.emplace_back(engine.module.addGpuScatterAdd(int64_t(width), type), width, bytesOf(type));
  engine.load();
  ASSERT_TRUE(engine.image);
  for (const auto &[kernel, width, element] : kernels) {
    const uint64_t threads = kernel.device.blockThreads, count = rows.size();
    auto turns = [&](uint64_t positions) { return (positions + threads - 1) / threads; };
    const uint64_t window = 8 * threads;
    auto turnsOfWindows = [&](uint64_t positions) { return (positions + window - 1) / window * 8; };
    uint64_t numbers = 0;
    for (uint64_t position = 0; position < count; ++position) {
      numbers += threads * (1 + turnsOfWindows(position));
      if (std::find(rows.begin(), rows.begin() + position, rows[position]) != rows.begin() + position ||
          rows[position] >= 40)
        continue;
      numbers += threads * turnsOfWindows(count - position);
      // Windows with a row of this number are looked at once more.
      for (uint64_t begin = position; begin < count; begin += window) {
        const uint64_t end = std::min(begin + window, count);
        if (std::find(rows.begin() + begin, rows.begin() + end, rows[position]) != rows.begin() + end)
          numbers += threads * turns(end - begin);
      }
    }
    const uint64_t good = (count - 1) * width;
    engine.expectMoved(kernel, {indices(rows), zeros(count * width * element), zeros(40 * width * 4), zeros(8)},
                       {int64_t(width), 40}, int64_t(count), {numbers * 4, good * element, good * 8, 8});
  }
}

TEST(CodegenBytes, Narrow) {
  for (mlir::Type type : {bf16(), f16()}) {
    Engine engine;
    const KernelDescription kernel = engine.module.addGpuNarrow(type);
    engine.load();
    ASSERT_TRUE(engine.image);
    engine.expectMoved(kernel, {zeros(3000 * 4), zeros(3000 * 2)}, {}, 3000 / 8, {3000 * 4, 3000 * 2});
  }
}

/// Of the bytes of a weight each code once; its scale and the map's values, four bytes each, come from a cache.
TEST(CodegenBytes, Dequantize) {
  constexpr uint64_t rows = 24, scaleBytes = 1 + 4 + 4 + 4;
  for (mlir::Type type : {f32(), bf16(), f16()})
    for (uint64_t columns : {128, 96}) {
      Engine engine;
      const KernelDescription nf4 = engine.module.addGpuDequantize(graph::WeightFormat::Nf4, int64_t(columns), type),
                              single = engine.module.addGpuDequantize(graph::WeightFormat::Nf4Single, int64_t(columns),
                                                                      type),
                              int8 = engine.module.addGpuDequantize(graph::WeightFormat::Int8, int64_t(columns), type);
      engine.load();
      ASSERT_TRUE(engine.image);
      const uint64_t count = rows * columns;
      QuantizedLayout layout = *quantizedLayout(plan::NF4, rows, columns);
      std::vector<int64_t> scalars{
          int64_t(count),      int64_t(layout.scales), int64_t(layout.nestedScales), int64_t(layout.nestedMap),
          int64_t(layout.map), int64_t(layout.mean)};
      if (layout.hasScalesByRow())
        scalars.push_back(int64_t(columns));
      engine.expectMoved(nf4, {zeros(layout.bytes), zeros(count * bytesOf(type))}, scalars, int64_t(count / 8),
                         {count / 2 + count / 8 * (scaleBytes + 8 * 4), count * bytesOf(type)});
      layout = *quantizedLayout(plan::NF4_SINGLE, rows, columns);
      scalars = {int64_t(count), int64_t(layout.scales), int64_t(layout.map)};
      if (layout.hasScalesByRow())
        scalars.push_back(int64_t(columns));
      engine.expectMoved(single, {zeros(layout.bytes), zeros(count * bytesOf(type))}, scalars, int64_t(count / 8),
                         {count / 2 + count / 8 * (4 + 8 * 4), count * bytesOf(type)});
      layout = *quantizedLayout(plan::INT8, rows, columns);
      engine.expectMoved(int8, {zeros(layout.bytes), zeros(count * bytesOf(type))},
                         {int64_t(columns), int64_t(columns / 8), int64_t(layout.scales)}, int64_t(count / 8),
                         {count + count / 8 * 4, count * bytesOf(type)});
    }
}
