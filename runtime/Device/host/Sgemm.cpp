// The scheme is that of GotoBLAS (Goto and van de Geijn, 2008): C in register tiles of 6 x 16, one pass over a block of
// k each; B packed into panels of 16 columns that stay in the first cache; A read where it is, or, where it is
// transposed, packed into panels of 6 rows that stay in the second.
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Device/host/Matmul.h"
#include <algorithm>
#include <immintrin.h>

#define ZTC_AVX2 __attribute__((target("avx2,fma")))

namespace ztc {
namespace {

/// Rows and columns of a register tile: 12 of 16 registers are sums.
constexpr uint64_t kTileRows = 6, kTileColumns = 16;
/// A block of B is (depth, columns), of A (rows, depth): a panel of B and one of A fit 32 KiB together, a block of A
/// fits half of 512 KiB.
constexpr uint64_t kDepth = 384, kColumns = 768, kRows = 96;

/// The size of the pieces, each but the last a multiple of `grain`, that [0, extent) is cut into evenly.
constexpr uint64_t evenPiece(uint64_t extent, uint64_t largest, uint64_t grain) {
  uint64_t pieces = (extent + largest - 1) / largest;
  return ((extent + pieces - 1) / pieces + grain - 1) / grain * grain;
}

struct Blocking {
  uint64_t depth, columns, rows;
  explicit Blocking(const MatmulProblem &problem)
      : depth(evenPiece(problem.k, kDepth, 8)), columns(evenPiece(problem.n, kColumns, kTileColumns)),
        rows(evenPiece(problem.m, kRows, kTileRows)) {}

  /// Floats from one packed panel to the next. A panel of A may be written two floats beyond its end; a panel of B ends
  /// with a cache line that keeps panels off the same sets of the cache.
  uint64_t panelOfA() const { return depth * kTileRows + 2; }
  uint64_t panelOfB() const { return (depth + 1) * kTileColumns; }
  /// Floats of the packed blocks.
  uint64_t packedB() const { return columns / kTileColumns * panelOfB(); }
  uint64_t packedA() const { return rows / kTileRows * panelOfA(); }
};

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
  const float *fourth = a + 3 * lda; // few addresses are kept in registers
  for (uint64_t k = 0; k < depth; ++k, b += kTileColumns) {
    __m256 left = _mm256_load_ps(b), right = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < Rows; ++i) {
      const float *at = Packed ? a + i : i < 3 ? a + uint64_t(i) * lda : fourth + uint64_t(i - 3) * lda;
      __m256 factor = _mm256_broadcast_ss(at);
      sum[i][0] = _mm256_fmadd_ps(factor, left, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(factor, right, sum[i][1]);
    }
    a += Packed ? kTileRows : 1;
    fourth += 1;
  }
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

uint64_t sgemmScratchBytes(const MatmulProblem &problem) {
  Blocking blocking(problem);
  return (blocking.packedB() + (problem.transposeA ? blocking.packedA() : 0) + kTileColumns) * sizeof(float);
}

void sgemm(const MatmulProblem &problem, const float *a, const float *b, float *c, void *scratch) {
  const Blocking blocking(problem);
  const uint64_t lda = problem.lda, ldb = problem.ldb, ldc = problem.ldc;
  const bool packed = problem.transposeA;
  float *packedB = static_cast<float *>(scratch), *packedA = packedB + blocking.packedB();
  for (uint64_t k = 0; k < problem.k; k += blocking.depth) {
    const uint64_t depth = std::min(blocking.depth, problem.k - k);
    const bool add = problem.add || k > 0;
    for (uint64_t n = 0; n < problem.n; n += blocking.columns) {
      const uint64_t columns = std::min(blocking.columns, problem.n - n);
      if (problem.transposeB)
        packColumns(b + n * ldb + k, ldb, depth, columns, blocking.panelOfB(), packedB);
      else
        packRows(b + k * ldb + n, ldb, depth, columns, blocking.panelOfB(), packedB);
      for (uint64_t m = 0; m < problem.m; m += blocking.rows) {
        const uint64_t rows = std::min(blocking.rows, problem.m - m);
        if (packed)
          packTransposed(a + k * lda + m, lda, depth, rows, blocking.panelOfA(), packedA);
        for (uint64_t column = 0; column < columns; column += kTileColumns) {
          const float *panel = packedB + column / kTileColumns * blocking.panelOfB();
          const uint64_t width = std::min(kTileColumns, columns - column);
          for (uint64_t row = 0; row < rows; row += kTileRows) {
            const uint64_t height = std::min(kTileRows, rows - row);
            const TileKernel kernel = kTileKernels[packed][height - 1];
            const float *from = packed ? packedA + row / kTileRows * blocking.panelOfA() : a + (m + row) * lda + k;
            float *to = c + (m + row) * ldc + n + column;
            if (width == kTileColumns)
              kernel(depth, from, lda, panel, to, ldc, add, problem.alpha);
            else
              multiplyNarrowTile(kernel, height, width, depth, from, lda, panel, to, ldc, add, problem.alpha);
          }
        }
      }
    }
  }
}

} // namespace ztc
