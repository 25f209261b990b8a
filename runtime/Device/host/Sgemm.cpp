// The scheme is that of GotoBLAS (Goto and van de Geijn, 2008): C in register tiles, one pass over a block of k each; B
// packed into panels as wide as a tile, which stay in the first cache (AVX2) or the second (AVX-512); A read where it
// is, or, where it is transposed, packed into panels as high as a tile, which stay in the second. What is packed is
// limited by memory, so that AVX2 packs for all tiles.
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Device/host/WholeProduct.h"
#include <algorithm>
#include <cstring>
#include <immintrin.h>

#define ZTC_AVX2 __attribute__((target("avx2,fma")))

namespace ztc {
namespace {

/// A panel of B for AVX2 and one of A, `depth` long, fit 32 KiB together; a block of A, (rows, depth), fits half of 512
/// KiB; a block of B, packed as a whole, is at most so many floats and shares the third cache with what else is there.
/// Bits depend on the depth, so it is one for all instruction sets.
constexpr uint64_t kDepth = 384, kRows = 96, kBlockOfB = 768 * 1024, kColumns = 1536;
/// Rows of A that lie a multiple of this apart share one or two sets of the first cache, which holds eight: a tile that
/// reads more of them at once has them copied, `kPadding` floats further apart than they are long.
constexpr uint64_t kAliasBytes = 2048, kPadding = 16;
/// How many rows ahead of the one that is packed the cache is told of.
constexpr uint64_t kAhead = 4;

ZTC_AVX2 inline void prefetchRow(const float *row, uint64_t elements) {
  for (uint64_t i = 0; i < elements; i += 16)
    _mm_prefetch(reinterpret_cast<const char *>(row + i), _MM_HINT_T0);
}

/// Transposes 8 x 8 floats; rows of `to` are aligned.
ZTC_AVX2 inline void transpose8(const float *from, uint64_t ld, float *to, uint64_t ldTo) {
  __m256 row[8], pair[8], quad[8];
  for (int i = 0; i < 8; ++i)
    row[i] = _mm256_loadu_ps(from + uint64_t(i) * ld);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int half = 0; half < 2; ++half) {
      quad[i + 2 * half] = _mm256_shuffle_ps(pair[i + half], pair[i + 2 + half], 0x44);
      quad[i + 2 * half + 1] = _mm256_shuffle_ps(pair[i + half], pair[i + 2 + half], 0xee);
    }
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(to + uint64_t(i) * ldTo, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
    _mm256_store_ps(to + uint64_t(i + 4) * ldTo, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
  }
}

/// Rows of B, (depth, columns), into panels of `width` columns; what a last panel lacks is zero.
ZTC_AVX2 void packRows(const float *b, uint64_t ld, uint64_t depth, uint64_t columns, uint64_t width, uint64_t panel,
                       float *to) {
  for (uint64_t k = 0; k < depth; ++k, b += ld, to += width) {
    if (k + kAhead < depth)
      prefetchRow(b + kAhead * ld, columns);
    float *out = to;
    uint64_t column = 0;
    for (; column + width <= columns; column += width, out += panel)
      for (uint64_t i = 0; i < width; i += 16) {
        _mm256_store_ps(out + i, _mm256_loadu_ps(b + column + i));
        _mm256_store_ps(out + i + 8, _mm256_loadu_ps(b + column + i + 8));
      }
    for (uint64_t i = 0; column < columns && i < width; ++i)
      out[i] = column + i < columns ? b[column + i] : 0;
  }
}

/// The same from B's transpose, (columns, depth).
ZTC_AVX2 void packColumns(const float *b, uint64_t ld, uint64_t depth, uint64_t columns, uint64_t width, uint64_t panel,
                          float *to) {
  for (uint64_t column = 0; column < columns; column += width, to += panel) {
    const float *from = b + column * ld;
    uint64_t present = std::min(width, columns - column), k = 0;
    for (; present == width && k + 8 <= depth; k += 8)
      for (uint64_t i = 0; i < width; i += 8)
        transpose8(from + i * ld + k, ld, to + k * width + i, width);
    for (; k < depth; ++k)
      for (uint64_t i = 0; i < width; ++i)
        to[k * width + i] = i < present ? from[i * ld + k] : 0;
  }
}

/// A's transpose, (depth, rows), into panels of 6 or 12 rows.
ZTC_AVX2 void packTransposed(const float *a, uint64_t ld, uint64_t depth, uint64_t rows, uint64_t height,
                             uint64_t panel, float *to) {
  const bool isHigh = height == 12;
  for (uint64_t k = 0; k < depth; ++k, a += ld, to += height) {
    if (k + kAhead < depth)
      prefetchRow(a + kAhead * ld, rows);
    float *out = to;
    uint64_t row = 0;
    // Of 6 rows two floats too many: the next k writes them again, or they lie past the panel.
    for (; row + (isHigh ? 12 : 8) <= rows; row += height, out += panel) {
      _mm256_storeu_ps(out, _mm256_loadu_ps(a + row));
      if (isHigh)
        _mm_storeu_ps(out + 8, _mm_loadu_ps(a + row + 8));
    }
    for (; row < rows; row += height, out += panel)
      for (uint64_t i = 0; i < height && row + i < rows; ++i)
        out[i] = a[row + i];
  }
}

/// The last columns of C, fewer than a tile has: through a tile of its own.
void multiplyNarrowTile(SgemmTiles::Kernel kernel, uint64_t rows, uint64_t columns, uint64_t depth, const float *a,
                        uint64_t lda, const float *b, float *c, uint64_t ldc, bool add, float alpha) {
  constexpr uint64_t kLd = SgemmTiles::kMostColumns;
  alignas(64) float tile[SgemmTiles::kMostRows * kLd];
  kernel(depth, a, lda, b, tile, kLd, false, alpha);
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column) {
      float value = tile[row * kLd + column], &to = c[row * ldc + column];
      to = add ? to + value : value;
    }
}

} // namespace

const SgemmTiles *sgemmTiles() {
  static const SgemmTiles *const tiles = hostSupports("x86-64-v4")   ? &sgemmTilesAvx512()
                                         : hostSupports("x86-64-v3") ? &sgemmTilesAvx2()
                                                                     : nullptr;
  return tiles;
}

SgemmPlan::SgemmPlan(const MatmulProblem &problem, const SgemmTiles &tiles)
    : problem_(problem), tiles_(&tiles), depth_(evenPiece(problem.k, kDepth, 8)) {
  const uint64_t columns = roundUp(problem.n, tiles_->columns);
  // As deep as k where the columns do not become few.
  columns_ = std::clamp(kBlockOfB / roundUp(problem.k, depth_) / tiles_->columns * tiles_->columns,
                        std::min(columns, kDepth), std::min(columns, kColumns));
  columns_ = evenPiece(problem.n, columns_, tiles_->columns);
  pieces_ = std::clamp<uint64_t>(kBlockOfB / (columns_ * depth_), 1, (problem.k + depth_ - 1) / depth_);
  panelOfA_ = depth_ * tiles_->rows + 2;
  panelOfB_ = (depth_ + 1) * tiles_->columns;
}

size_t SgemmPlan::blocks() const {
  const uint64_t across = (problem_.n + columns_ - 1) / columns_, down = pieces_ * depth_;
  return across * ((problem_.k + down - 1) / down);
}

SgemmPlan::Block SgemmPlan::block(size_t index) const {
  const uint64_t deep = pieces_ * depth_, down = (problem_.k + deep - 1) / deep;
  const uint64_t column = index / down * columns_, k = index % down * deep;
  return {column, std::min(columns_, problem_.n - column), k, std::min(deep, problem_.k - k)};
}

uint64_t SgemmPlan::packedBytes() const {
  if (hasFewRows())
    return (panelOfB_ + tiles_->columns) * sizeof(float);
  return (pieces_ * columns_ / tiles_->columns * panelOfB_ + tiles_->columns) * sizeof(float);
}

bool SgemmPlan::copiesA() const {
  return !problem_.transposeA && tiles_->rows > 8 && problem_.lda * sizeof(float) % kAliasBytes == 0;
}

uint64_t SgemmPlan::scratchBytes() const {
  if (copiesA())
    return kRows * (depth_ + kPadding) * sizeof(float);
  return problem_.transposeA ? roundUp(kRows / tiles_->rows * panelOfA_ * sizeof(float), 64) : 0;
}

uint64_t SgemmPlan::panels(const Block &block) const {
  return (block.columns + tiles_->columns - 1) / tiles_->columns;
}

void SgemmPlan::pack(const Block &block, const float *b, uint64_t begin, uint64_t end, void *packed) const {
  const uint64_t ldb = problem_.ldb, first = begin * tiles_->columns, column = block.column + first;
  const uint64_t columns = std::min(end * tiles_->columns, block.columns) - first;
  float *to = static_cast<float *>(packed) + begin * panelOfB_;
  for (uint64_t k = 0; k < block.depth; k += depth_, to += panels(block) * panelOfB_) {
    const uint64_t depth = std::min(depth_, block.depth - k);
    if (problem_.transposeB)
      packColumns(b + column * ldb + block.k + k, ldb, depth, columns, tiles_->columns, panelOfB_, to);
    else
      packRows(b + (block.k + k) * ldb + column, ldb, depth, columns, tiles_->columns, panelOfB_, to);
  }
}

void SgemmPlan::multiply(const Block &block, const float *a, const void *packed, ProductResult c, WorkRange rows,
                         WorkRange panels, void *scratch) const {
  const uint64_t chunk = evenPiece(rows.end - rows.begin, kRows, tiles_->rows);
  for (uint64_t row = rows.begin; row < rows.end; row += chunk)
    multiplyRows(block, a, static_cast<const float *>(packed), static_cast<float *>(c.c), row,
                 std::min(chunk, rows.end - row), panels, static_cast<float *>(scratch));
}

WorkRange SgemmPlan::neededDepth(uint64_t row, uint64_t rows, uint64_t begin, uint64_t depth) const {
  uint64_t from = 0, to = depth;
  if (problem_.causal == Causal::Left) // zero from here on for the last row
    to = std::clamp(problem_.diagonal + row + rows, begin, begin + depth) - begin;
  if (problem_.causal == Causal::LeftTransposed && row > problem_.diagonal) // zero up to here for the first row
    from = std::clamp(row - problem_.diagonal, begin, begin + depth) - begin;
  return {from, to};
}

void SgemmPlan::multiplyRows(const Block &block, const float *a, const float *packed, float *c, uint64_t first,
                             uint64_t rows, WorkRange range, float *scratch) const {
  const bool packsA = problem_.transposeA, copies = copiesA();
  const uint64_t lda = problem_.lda, ldCopy = depth_ + kPadding, ldc = problem_.ldc;
  for (uint64_t k = 0; k < block.depth; k += depth_, packed += panels(block) * panelOfB_) {
    const uint64_t depth = std::min(depth_, block.depth - k), at = block.k + k;
    const bool add = problem_.add || at > 0;
    if (packsA)
      packTransposed(a + at * lda + first, lda, depth, rows, tiles_->rows, panelOfA_, scratch);
    for (uint64_t row = 0; copies && row < rows; ++row)
      std::memcpy(scratch + row * ldCopy, a + (first + row) * lda + at, depth * sizeof(float));
    for (uint64_t panel = range.begin; panel < range.end; ++panel) {
      const uint64_t column = panel * tiles_->columns, width = std::min(tiles_->columns, block.columns - column);
      const float *from = packed + panel * panelOfB_;
      for (uint64_t row = 0; row < rows; row += tiles_->rows) {
        const uint64_t height = std::min(tiles_->rows, rows - row);
        if (problem_.causal == Causal::Scores && block.column + column > problem_.diagonal + first + row + height - 1)
          continue;
        const WorkRange needed = neededDepth(first + row, height, at, depth);
        if (needed.empty() && add)
          continue;
        const SgemmTiles::Kernel kernel =
            (2 * width <= tiles_->columns ? tiles_->narrow : tiles_->whole)[packsA][height - 1];
        const float *left = packsA   ? scratch + row / tiles_->rows * panelOfA_ + needed.begin * tiles_->rows
                            : copies ? scratch + row * ldCopy + needed.begin
                                     : a + (first + row) * lda + at + needed.begin;
        const uint64_t ldLeft = copies ? ldCopy : lda;
        const float *right = from + needed.begin * tiles_->columns;
        const uint64_t length = needed.end - needed.begin;
        float *to = c + (first + row) * ldc + block.column + column;
        if (width == tiles_->columns || 2 * width == tiles_->columns)
          kernel(length, left, ldLeft, right, to, ldc, add, problem_.alpha);
        else
          multiplyNarrowTile(kernel, height, width, length, left, ldLeft, right, to, ldc, add, problem_.alpha);
      }
    }
  }
}

void SgemmPlan::multiplyFewRows(const float *a, const float *b, float *c, void *packed, void *scratch) const {
  if (problem_.m <= tiles_->fewRows) {
    for (uint64_t k = 0; k < problem_.k; k += depth_)
      tiles_->multiplyRows({.rows = problem_.m,
                            .columns = problem_.n,
                            .depth = std::min(depth_, problem_.k - k),
                            .a = a + k * (problem_.transposeA ? problem_.lda : 1),
                            .lda = problem_.transposeA ? 1 : problem_.lda,
                            .stepA = problem_.transposeA ? problem_.lda : 1,
                            .b = b + k * (problem_.transposeB ? 1 : problem_.ldb),
                            .ldb = problem_.ldb,
                            .transposeB = problem_.transposeB,
                            .c = c,
                            .ldc = problem_.ldc,
                            .add = problem_.add || k > 0,
                            .alpha = problem_.alpha});
    return;
  }
  for (uint64_t column = 0; column < problem_.n; column += tiles_->columns)
    for (uint64_t k = 0; k < problem_.k; k += depth_) {
      const Block panel{column, std::min(tiles_->columns, problem_.n - column), k, std::min(depth_, problem_.k - k)};
      pack(panel, b, 0, 1, packed);
      multiply(panel, a, packed, c, {0, problem_.m}, {0, 1}, scratch);
    }
}

void sgemm(const SgemmPlan &plan, const float *a, const float *b, float *c, void *scratch) {
  if (plan.hasFewRows())
    plan.multiplyFewRows(a, b, c, scratch, scratchAfterBlock(plan, scratch));
  else
    multiplyBlocks(plan, a, b, c, scratch);
}

uint64_t sgemmScratchBytes(const SgemmPlan &plan) {
  return wholeScratchBytes(plan);
}

} // namespace ztc
