#include "runtime/Device/host/Product.h"
#include "runtime/Core/Gelu.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace ztc {

bool multipliesNatively(plan::DataType type) {
  return type == plan::F32 || (type == plan::BF16 && hasBf16Gemm());
}

std::string productPath(plan::DataType type) {
  const char *how = !multipliesNatively(type)                     ? "in f32 panels"
                    : bf16Instructions() == Bf16Instructions::Amx ? "by AMX"
                                                                  : "by AVX512-BF16";
  return fmt::format("{} products {}", dataTypeName(type), how);
}

namespace {

/// Below this many multiply-adds waking the other workers costs more than it saves.
constexpr double kSmallProduct = 1 << 18;
/// Tiles are cut until there are so many, or until they have this many rows and columns.
constexpr uint64_t kWantedTiles = 8, kSmallestSide = 64;

uint64_t countTiles(const MatmulProblem &problem, uint64_t batch, WidenedTile size) {
  return batch * ((problem.m + size.rows - 1) / size.rows) * ((problem.n + size.columns - 1) / size.columns);
}

WidenedTile chooseTile(const MatmulProblem &problem, uint64_t batch, WidenedTile size) {
  size = {std::min(problem.m, size.rows), std::min(problem.n, size.columns), std::min(problem.k, size.depth)};
  while (countTiles(problem, batch, size) < kWantedTiles) {
    uint64_t &side = size.rows >= size.columns ? size.rows : size.columns;
    if (side < 2 * kSmallestSide)
      break;
    side = (side / 2 + 15) / 16 * 16;
  }
  return size;
}

/// Rows of a stored matrix as f32 in a panel.
void widenRows(float *panel, uint64_t ldPanel, const uint16_t *from, uint64_t ld, uint64_t rows, uint64_t columns,
               NarrowType type) {
  for (uint64_t row = 0; row < rows; ++row)
    widen(panel + row * ldPanel, from + row * ld, columns, type);
}

/// The numbers of all codes of a format.
std::array<float, 256> numbersOf(Fp8Format format) {
  std::array<float, 256> numbers;
  for (unsigned code = 0; code < 256; ++code)
    numbers[code] = fromFp8(uint8_t(code), format);
  return numbers;
}

/// The same of codes, whose numbers f32 holds exactly.
void decodeRows(float *panel, uint64_t ldPanel, const uint8_t *from, uint64_t ld, uint64_t rows, uint64_t columns,
                Fp8Format format) {
  static const std::array<float, 256> kNumbers[] = {numbersOf(Fp8Format::E4m3), numbersOf(Fp8Format::E5m2)};
  const float *numbers = kNumbers[format == Fp8Format::E5m2].data();
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column)
      panel[row * ldPanel + column] = numbers[from[row * ld + column]];
}

/// One operand of a product: where its blocks lie, in memory or in a panel.
struct Operand {
  const std::byte *base; ///< of the batch's item
  uint64_t ld;
  plan::DataType type;
  bool crossed; ///< rows of the stored matrix run along the tile's side, columns along k: A transposed, B not

  /// Rows of a panel for `side` rows or columns of the tile.
  static uint64_t panelStride(bool crossed, uint64_t side, uint64_t depth) {
    return scratchRowElements(crossed ? side : depth);
  }
  /// f32 elements of [first, first + side) along the tile and [begin, begin + depth) along k.
  const float *block(uint64_t first, uint64_t side, uint64_t begin, uint64_t depth, float *panel) const {
    const uint64_t offset = crossed ? begin * ld + first : first * ld + begin;
    if (const std::optional<Fp8Format> format = fp8DataType(type)) {
      decodeRows(panel, panelStride(crossed, side, depth), reinterpret_cast<const uint8_t *>(base) + offset, ld,
                 crossed ? depth : side, crossed ? side : depth, *format);
      return panel;
    }
    const std::optional<NarrowType> narrow = narrowDataType(type);
    if (!narrow)
      return reinterpret_cast<const float *>(base) + offset;
    widenRows(panel, panelStride(crossed, side, depth), reinterpret_cast<const uint16_t *>(base) + offset, ld,
              crossed ? depth : side, crossed ? side : depth, *narrow);
    return panel;
  }
};

} // namespace

StatusOr<std::vector<WidenedMatmul::Block>> WidenedMatmul::prepareBlocks(MatmulCache &cache, uint64_t rows,
                                                                         uint64_t columns) const {
  std::vector<Block> blocks;
  for (uint64_t begin = 0; begin < problem_.k; begin += size_.depth) {
    const uint64_t depth = std::min(size_.depth, problem_.k - begin);
    MatmulProblem part = problem_;
    part.causal = Causal::None;
    part.m = rows;
    part.n = columns;
    part.k = depth;
    part.add = (problem_.add && !scaled_ && problem_.typeC == plan::F32) || begin > 0;
    if (std::exchange(part.typeA, plan::F32) != plan::F32)
      part.lda = Operand::panelStride(problem_.transposeA, rows, depth);
    if (std::exchange(part.typeB, plan::F32) != plan::F32)
      part.ldb = Operand::panelStride(!problem_.transposeB, columns, depth);
    if (std::exchange(part.typeC, plan::F32) != plan::F32 || scaled_)
      part.ldc = scratchRowElements(columns);
    ZTC_ASSIGN_OR_RETURN(const Matmul *matmul, cache.get(part));
    blocks.push_back({begin, depth, matmul});
  }
  return blocks;
}

StatusOr<WidenedMatmul> WidenedMatmul::prepare(MatmulCache &cache, const MatmulProblem &problem,
                                               ParallelMatmul::Batch batch, WidenedTile largest) {
  return prepare(cache, problem, batch, largest, /*scaled=*/false);
}

StatusOr<WidenedMatmul> WidenedMatmul::prepareScaled(MatmulCache &cache, const MatmulProblem &problem) {
  return prepare(cache, problem, ParallelMatmul::Batch(), {}, /*scaled=*/true);
}

StatusOr<WidenedMatmul> WidenedMatmul::prepare(MatmulCache &cache, const MatmulProblem &problem,
                                               ParallelMatmul::Batch batch, WidenedTile largest, bool scaled) {
  WidenedMatmul result;
  result.scaled_ = scaled;
  result.problem_ = problem;
  result.batch_ = batch;
  result.size_ = chooseTile(problem, batch.count, largest);
  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (uint64_t item = 0; item < batch.count; ++item)
    for (uint64_t column = 0; column < problem.n; column += result.size_.columns)
      for (uint64_t row = 0; row < problem.m; row += result.size_.rows) {
        Tile tile{.item = item,
                  .row = row,
                  .rows = std::min(result.size_.rows, problem.m - row),
                  .column = column,
                  .columns = std::min(result.size_.columns, problem.n - column),
                  .blocks = 0};
        const auto [size, isNew] = known.try_emplace({tile.rows, tile.columns}, result.blocks_.size());
        if (isNew) {
          ZTC_ASSIGN_OR_RETURN(std::vector<Block> blocks, result.prepareBlocks(cache, tile.rows, tile.columns));
          result.blocks_.push_back(std::move(blocks));
        }
        tile.blocks = size->second;
        result.tiles_.push_back(tile);
      }
  const double products = double(problem.m) * double(problem.n) * double(problem.k) * double(batch.count);
  result.parallel_ = products >= kSmallProduct && cache.workers() > 1 && result.tiles_.size() > 1;
  return result;
}

void WidenedMatmul::run(const Tile &tile, uint32_t worker, const void *a, const void *b, ProductResult c,
                        std::byte *panels, float scale) const {
  const MatmulProblem &p = problem_;
  const Operand left{static_cast<const std::byte *>(a) + tile.item * batch_.strideA * dataTypeBytes(p.typeA), p.lda,
                     p.typeA, p.transposeA};
  const Operand right{static_cast<const std::byte *>(b) + tile.item * batch_.strideB * dataTypeBytes(p.typeB), p.ldb,
                      p.typeB, !p.transposeB};
  auto *panelA = reinterpret_cast<float *>(panels);
  const auto floats = [](uint64_t elements) { return scratchBytes(elements) / sizeof(float); };
  auto *panelB = panelA + floats(widenedPanelElements(size_.rows, size_.depth));
  auto *panelC = panelB + floats(widenedPanelElements(size_.columns, size_.depth));
  const uint64_t offsetC = tile.item * batch_.strideC + tile.row * p.ldc + tile.column;
  const std::optional<NarrowType> narrowC = narrowDataType(p.typeC);
  const uint64_t ldPanel = scratchRowElements(tile.columns);
  auto *rounded = static_cast<uint16_t *>(c.c) + offsetC;
  float *const wide = static_cast<float *>(c.c) + offsetC;
  float *sum = narrowC || scaled_ ? panelC : wide;
  for (const Block &block : blocks_[tile.blocks]) {
    const float *blockA = left.block(tile.row, tile.rows, block.begin, block.depth, panelA);
    const float *blockB = right.block(tile.column, tile.columns, block.begin, block.depth, panelB);
    block.matmul->execute(worker, blockA, blockB, sum);
  }
  for (uint64_t row = 0; scaled_ && row < tile.rows; ++row) {
    float *sums = panelC + row * ldPanel, *to = wide + row * p.ldc;
    for (uint64_t column = 0; column < tile.columns; ++column)
      sums[column] *= scale;
    for (uint64_t column = 0; !narrowC && column < tile.columns; ++column)
      to[column] = p.add ? to[column] + sums[column] : sums[column];
  }
  for (uint64_t row = 0; narrowC && row < tile.rows; ++row) {
    float *sums = panelC + row * ldPanel;
    if (p.add) // to the finished sum, as every path does
      addWidened(sums, rounded + row * p.ldc, tile.columns, *narrowC);
    if (c.bias)
      addWidened(sums, c.bias + tile.column, tile.columns, *narrowC);
    if (c.gelu) {
      if (c.sums)
        narrow(c.sums + offsetC + row * p.ldc, sums, tile.columns, *narrowC);
      for (uint64_t column = 0; column < tile.columns; ++column)
        sums[column] = geluTanh(sums[column]);
    }
    narrow(rounded + row * p.ldc, sums, tile.columns, *narrowC);
  }
}

void WidenedMatmul::execute(ThreadPool &pool, const void *a, const void *b, ProductResult c, std::byte *panels,
                            uint64_t panelBytes, float scale) const {
  auto work = [&](uint32_t worker, size_t index) {
    run(tiles_[index], worker, a, b, c, panels + worker * panelBytes, scale);
  };
  if (parallel_)
    pool.forEach(tiles_.size(), work);
  else
    for (size_t index = 0; index < tiles_.size(); ++index)
      work(0, index);
}

namespace {

/// A block of k of a tile whose operands are in panels.
MatmulProblem widenedBlock(const MatmulProblem &problem, uint64_t begin, uint64_t depth) {
  MatmulProblem block = problem;
  block.k = depth;
  block.lda = Operand::panelStride(problem.transposeA, problem.m, depth);
  block.ldb = Operand::panelStride(!problem.transposeB, problem.n, depth);
  block.typeA = block.typeB = block.typeC = plan::F32;
  block.add = begin > 0 || (problem.add && problem.typeC == plan::F32);
  if (problem.typeC != plan::F32)
    block.ldc = scratchRowElements(problem.n);
  return block;
}

} // namespace

Status reserveTiles(MatmulCache &cache, MatmulProblem problem, uint64_t MatmulProblem::*size) {
  if (multipliesAsStored(problem))
    return cache.reserveUpTo(problem, size);
  const uint64_t deepest = WidenedTile().depth;
  // Blocks of deeper products are some of shallower ones.
  for (uint64_t left = size == &MatmulProblem::k ? std::min(problem.k, deepest) : problem.*size; left > 0; --left) {
    problem.*size = left;
    for (uint64_t depth : {std::min(problem.k, deepest), problem.k % deepest})
      if (depth)
        ZTC_RETURN_IF_ERROR(cache.reserve(widenedBlock(problem, 0, depth)));
  }
  return Status::ok();
}

void multiplyTile(const MatmulCache &cache, uint32_t worker, const MatmulProblem &problem, const void *a, const void *b,
                  void *c, std::byte *panels) {
  if (multipliesAsStored(problem))
    return cache.execute(worker, problem, a, b, c);
  const Operand left{static_cast<const std::byte *>(a), problem.lda, problem.typeA, problem.transposeA};
  const Operand right{static_cast<const std::byte *>(b), problem.ldb, problem.typeB, !problem.transposeB};
  const auto floats = [](uint64_t elements) { return scratchBytes(elements) / sizeof(float); };
  const uint64_t deepest = std::min(problem.k, WidenedTile().depth);
  auto *panelA = reinterpret_cast<float *>(panels);
  auto *panelB = panelA + floats(widenedPanelElements(problem.m, deepest));
  auto *panelC = panelB + floats(widenedPanelElements(problem.n, deepest));
  const std::optional<NarrowType> narrowC = narrowDataType(problem.typeC);
  for (uint64_t begin = 0; begin < problem.k; begin += deepest) {
    const uint64_t depth = std::min(deepest, problem.k - begin);
    const float *blockA = left.block(0, problem.m, begin, depth, panelA);
    const float *blockB = right.block(0, problem.n, begin, depth, panelB);
    cache.execute(worker, widenedBlock(problem, begin, depth), blockA, blockB, narrowC ? panelC : c);
  }
  for (uint64_t row = 0; narrowC && row < problem.m; ++row) {
    float *sums = panelC + row * scratchRowElements(problem.n);
    uint16_t *to = static_cast<uint16_t *>(c) + row * problem.ldc;
    if (problem.add)
      addWidened(sums, to, problem.n, *narrowC);
    narrow(to, sums, problem.n, *narrowC);
  }
}

StatusOr<Product> Product::prepare(MatmulCache &cache, const MatmulProblem &problem, ParallelMatmul::Batch batch) {
  Product result;
  result.widens_ = !multipliesAsStored(problem);
  if (result.widens_) {
    ZTC_ASSIGN_OR_RETURN(result.widened_, WidenedMatmul::prepare(cache, problem, batch));
  } else {
    ZTC_ASSIGN_OR_RETURN(result.plain_, ParallelMatmul::prepare(cache, problem, batch));
  }
  return result;
}

} // namespace ztc
