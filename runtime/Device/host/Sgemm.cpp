// The scheme is that of GotoBLAS (Goto and van de Geijn, 2008): C in register tiles of 6 x 16, one pass over a block of
// k each; B packed into panels of 16 columns that stay in the first cache; A read where it is, or, where it is
// transposed, packed into panels of 6 rows that stay in the second.
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Core/CpuFeatures.h"
#include <algorithm>
#include <immintrin.h>

#define ZTC_AVX2 __attribute__((target("avx2,fma")))

namespace ztc {
namespace {

/// Rows and columns of a register tile: 12 of 16 registers are sums.
constexpr uint64_t kTileRows = SgemmPlan::kRowGrain, kTileColumns = 16;
/// A panel of B and one of A, `depth` long, fit 32 KiB together; a block of A, (rows, depth), fits half of 512 KiB; a
/// block of B, packed as a whole, is at most so many floats and shares the third cache with what else is there.
constexpr uint64_t kDepth = 384, kRows = 96, kBlockOfB = 768 * 1024, kColumns = 1536;
/// How many rows ahead of the one that is packed the cache is told of.
constexpr uint64_t kAhead = 4;

/// The size of the pieces, each but the last a multiple of `grain`, that [0, extent) is cut into evenly.
constexpr uint64_t evenPiece(uint64_t extent, uint64_t largest, uint64_t grain) {
  uint64_t pieces = (extent + largest - 1) / largest;
  return ((extent + pieces - 1) / pieces + grain - 1) / grain * grain;
}

constexpr uint64_t roundUp(uint64_t value, uint64_t grain) {
  return (value + grain - 1) / grain * grain;
}

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

/// Rows of B, (depth, columns), into panels; what a last panel lacks is zero.
ZTC_AVX2 void packRows(const float *b, uint64_t ld, uint64_t depth, uint64_t columns, uint64_t panel, float *to) {
  for (uint64_t k = 0; k < depth; ++k, b += ld, to += kTileColumns) {
    if (k + kAhead < depth)
      prefetchRow(b + kAhead * ld, columns);
    float *out = to;
    uint64_t column = 0;
    for (; column + kTileColumns <= columns; column += kTileColumns, out += panel) {
      _mm256_store_ps(out, _mm256_loadu_ps(b + column));
      _mm256_store_ps(out + 8, _mm256_loadu_ps(b + column + 8));
    }
    for (uint64_t i = 0; column < columns && i < kTileColumns; ++i)
      out[i] = column + i < columns ? b[column + i] : 0;
  }
}

/// The same from B's transpose, (columns, depth).
ZTC_AVX2 void packColumns(const float *b, uint64_t ld, uint64_t depth, uint64_t columns, uint64_t panel, float *to) {
  for (uint64_t column = 0; column < columns; column += kTileColumns, to += panel) {
    const float *from = b + column * ld;
    uint64_t width = std::min(kTileColumns, columns - column), k = 0;
    for (; width == kTileColumns && k + 8 <= depth; k += 8) {
      transpose8(from + k, ld, to + k * kTileColumns, kTileColumns);
      transpose8(from + 8 * ld + k, ld, to + k * kTileColumns + 8, kTileColumns);
    }
    for (; k < depth; ++k)
      for (uint64_t i = 0; i < kTileColumns; ++i)
        to[k * kTileColumns + i] = i < width ? from[i * ld + k] : 0;
  }
}

/// A's transpose, (depth, rows), into panels of 6 rows.
ZTC_AVX2 void packTransposed(const float *a, uint64_t ld, uint64_t depth, uint64_t rows, uint64_t panel, float *to) {
  for (uint64_t k = 0; k < depth; ++k, a += ld, to += kTileRows) {
    if (k + kAhead < depth)
      prefetchRow(a + kAhead * ld, rows);
    float *out = to;
    uint64_t row = 0;
    // Two floats too many: the next k writes them again, or they lie behind the panel.
    for (; row + 8 <= rows; row += kTileRows, out += panel)
      _mm256_storeu_ps(out, _mm256_loadu_ps(a + row));
    for (; row < rows; row += kTileRows, out += panel)
      for (uint64_t i = 0; i < kTileRows && row + i < rows; ++i)
        out[i] = a[row + i];
  }
}

/// One value of k: a row of the panel of B times `Rows` values of A, added to a tile of sums.
template <int Rows, bool Packed>
ZTC_AVX2 inline void multiplyRow(__m256 (&sum)[Rows][2], const float *a, const float *fourth, uint64_t lda,
                                 const float *b) {
  __m256 left = _mm256_load_ps(b), right = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
    const float *at = Packed ? a + i : i < 3 ? a + uint64_t(i) * lda : fourth + uint64_t(i - 3) * lda;
    __m256 factor = _mm256_broadcast_ss(at);
    sum[i][0] = _mm256_fmadd_ps(factor, left, sum[i][0]);
    sum[i][1] = _mm256_fmadd_ps(factor, right, sum[i][1]);
  }
}

/// A tile of C: `Rows` rows of A, in a packed panel or `lda` apart in memory, times a panel of B.
template <int Rows, bool Packed>
ZTC_AVX2 void multiplyTile(uint64_t depth, const float *a, uint64_t lda, const float *b, float *c, uint64_t ldc,
                           bool add, float alpha) {
  __m256 sum[Rows][2];
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
    sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    _mm_prefetch(reinterpret_cast<const char *>(c + uint64_t(i) * ldc), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char *>(c + uint64_t(i) * ldc + kTileColumns - 1), _MM_HINT_T0);
  }
  // Few addresses are kept in registers; four values of k share their arithmetic, which otherwise is what limits the
  // loop: 6 cycles for 12 multiply-adds, 8 loads and what counts.
  constexpr uint64_t kUnrolled = 4, kStep = Packed ? kTileRows : 1;
  const float *fourth = a + 3 * lda;
  uint64_t k = 0;
  for (; k + kUnrolled <= depth; k += kUnrolled) {
#pragma GCC unroll 4
    for (uint64_t i = 0; i < kUnrolled; ++i)
      multiplyRow<Rows, Packed>(sum, a + i * kStep, fourth + i, lda, b + i * kTileColumns);
    a += kUnrolled * kStep;
    fourth += kUnrolled;
    b += kUnrolled * kTileColumns;
  }
  for (; k < depth; ++k, a += kStep, ++fourth, b += kTileColumns)
    multiplyRow<Rows, Packed>(sum, a, fourth, lda, b);
  __m256 scale = _mm256_set1_ps(alpha);
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i)
    for (int half = 0; half < 2; ++half) {
      float *to = c + uint64_t(i) * ldc + 8 * half;
      __m256 value = alpha == 1 ? sum[i][half] : _mm256_mul_ps(sum[i][half], scale);
      _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), value) : value);
    }
}

using TileKernel = void (*)(uint64_t, const float *, uint64_t, const float *, float *, uint64_t, bool, float);
/// By packed or not, and by rows - 1.
constexpr TileKernel kTileKernels[2][kTileRows] = {
    {multiplyTile<1, false>, multiplyTile<2, false>, multiplyTile<3, false>, multiplyTile<4, false>,
     multiplyTile<5, false>, multiplyTile<6, false>},
    {multiplyTile<1, true>, multiplyTile<2, true>, multiplyTile<3, true>, multiplyTile<4, true>, multiplyTile<5, true>,
     multiplyTile<6, true>}};

/// The last columns of C, fewer than a tile has: through a tile of its own.
void multiplyNarrowTile(TileKernel kernel, uint64_t rows, uint64_t columns, uint64_t depth, const float *a,
                        uint64_t lda, const float *b, float *c, uint64_t ldc, bool add, float alpha) {
  alignas(64) float tile[kTileRows * kTileColumns];
  kernel(depth, a, lda, b, tile, kTileColumns, false, alpha);
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column) {
      float value = tile[row * kTileColumns + column], &to = c[row * ldc + column];
      to = add ? to + value : value;
    }
}

} // namespace

bool prefersSgemm() {
  static const bool prefers = bestHostTarget() == "x86-64-v3";
  return prefers;
}

SgemmPlan::SgemmPlan(const MatmulProblem &problem) : problem_(problem), depth_(evenPiece(problem.k, kDepth, 8)) {
  const uint64_t columns = roundUp(problem.n, kTileColumns);
  // As deep as k where the columns do not become few.
  columns_ = std::clamp(kBlockOfB / roundUp(problem.k, depth_) / kTileColumns * kTileColumns, std::min(columns, kDepth),
                        std::min(columns, kColumns));
  columns_ = evenPiece(problem.n, columns_, kTileColumns);
  pieces_ = std::clamp<uint64_t>(kBlockOfB / (columns_ * depth_), 1, (problem.k + depth_ - 1) / depth_);
  panelOfA_ = depth_ * kTileRows + 2;
  panelOfB_ = (depth_ + 1) * kTileColumns;
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
  return (pieces_ * columns_ / kTileColumns * panelOfB_ + kTileColumns) * sizeof(float);
}

uint64_t SgemmPlan::scratchBytes() const {
  return problem_.transposeA ? roundUp(kRows / kTileRows * panelOfA_ * sizeof(float), 64) : 0;
}

uint64_t SgemmPlan::panels(const Block &block) const {
  return (block.columns + kTileColumns - 1) / kTileColumns;
}

void SgemmPlan::pack(const Block &block, const float *b, uint64_t begin, uint64_t end, float *packed) const {
  const uint64_t ldb = problem_.ldb, first = begin * kTileColumns, column = block.column + first;
  const uint64_t columns = std::min(end * kTileColumns, block.columns) - first;
  float *to = packed + begin * panelOfB_;
  for (uint64_t k = 0; k < block.depth; k += depth_, to += panels(block) * panelOfB_) {
    const uint64_t depth = std::min(depth_, block.depth - k);
    if (problem_.transposeB)
      packColumns(b + column * ldb + block.k + k, ldb, depth, columns, panelOfB_, to);
    else
      packRows(b + (block.k + k) * ldb + column, ldb, depth, columns, panelOfB_, to);
  }
}

void SgemmPlan::multiply(const Block &block, const float *a, const float *packed, float *c, WorkRange rows,
                         WorkRange panels, float *scratch) const {
  const uint64_t chunk = evenPiece(rows.end - rows.begin, kRows, kTileRows);
  for (uint64_t row = rows.begin; row < rows.end; row += chunk)
    multiplyRows(block, a, packed, c, row, std::min(chunk, rows.end - row), panels, scratch);
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
  const bool packsA = problem_.transposeA;
  const uint64_t lda = problem_.lda, ldc = problem_.ldc;
  for (uint64_t k = 0; k < block.depth; k += depth_, packed += panels(block) * panelOfB_) {
    const uint64_t depth = std::min(depth_, block.depth - k), at = block.k + k;
    const bool add = problem_.add || at > 0;
    if (packsA)
      packTransposed(a + at * lda + first, lda, depth, rows, panelOfA_, scratch);
    for (uint64_t panel = range.begin; panel < range.end; ++panel) {
      const uint64_t column = panel * kTileColumns, width = std::min(kTileColumns, block.columns - column);
      const float *from = packed + panel * panelOfB_;
      for (uint64_t row = 0; row < rows; row += kTileRows) {
        const uint64_t height = std::min(kTileRows, rows - row);
        if (problem_.causal == Causal::Scores && block.column + column > problem_.diagonal + first + row + height - 1)
          continue;
        const WorkRange needed = neededDepth(first + row, height, at, depth);
        if (needed.empty() && add)
          continue;
        const TileKernel kernel = kTileKernels[packsA][height - 1];
        const float *left = packsA ? scratch + row / kTileRows * panelOfA_ + needed.begin * kTileRows
                                   : a + (first + row) * lda + at + needed.begin;
        const float *right = from + needed.begin * kTileColumns;
        const uint64_t length = needed.end - needed.begin;
        float *to = c + (first + row) * ldc + block.column + column;
        if (width == kTileColumns)
          kernel(length, left, lda, right, to, ldc, add, problem_.alpha);
        else
          multiplyNarrowTile(kernel, height, width, length, left, lda, right, to, ldc, add, problem_.alpha);
      }
    }
  }
}

void sgemm(const SgemmPlan &plan, const float *a, const float *b, float *c, void *scratch) {
  float *packed = static_cast<float *>(scratch), *packedA = packed + roundUp(plan.packedBytes(), 64) / sizeof(float);
  for (size_t index = 0; index < plan.blocks(); ++index) {
    const SgemmPlan::Block block = plan.block(index);
    const uint64_t panels = plan.panels(block);
    plan.pack(block, b, 0, panels, packed);
    plan.multiply(block, a, packed, c, {0, plan.problem().m}, {0, panels}, packedA);
  }
}

uint64_t sgemmScratchBytes(const SgemmPlan &plan) {
  return roundUp(plan.packedBytes(), 64) + plan.scratchBytes();
}

} // namespace ztc
