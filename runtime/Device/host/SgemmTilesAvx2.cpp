#include "runtime/Device/host/SgemmTiles.h"
#include <immintrin.h>

#define ZTC_AVX2 __attribute__((target("avx2,fma")))

namespace ztc {
namespace {

/// 12 of 16 registers are sums.
constexpr int kRows = 6, kVectors = 2, kLanes = 8;

/// One value of k: a row of the panel of B times `Rows` values of A, added to a tile of sums.
template <int Rows, bool Packed, int Vectors>
ZTC_AVX2 inline void multiplyRow(__m256 (&sum)[Rows][Vectors], const float *a, const float *fourth, uint64_t lda,
                                 const float *b) {
  __m256 right[Vectors];
#pragma GCC unroll 2
  for (int j = 0; j < Vectors; ++j)
    right[j] = _mm256_load_ps(b + j * kLanes);
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
    const float *at = Packed ? a + i : i < 3 ? a + uint64_t(i) * lda : fourth + uint64_t(i - 3) * lda;
    __m256 factor = _mm256_broadcast_ss(at);
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = _mm256_fmadd_ps(factor, right[j], sum[i][j]);
  }
}

/// A tile of C: `Rows` rows of A, in a packed panel or `lda` apart in memory, times a panel of B.
template <int Rows, bool Packed, int Vectors>
ZTC_AVX2 void multiplyTile(uint64_t depth, const float *a, uint64_t lda, const float *b, float *c, uint64_t ldc,
                           bool add, float alpha) {
  __m256 sum[Rows][Vectors];
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = _mm256_setzero_ps();
    _mm_prefetch(reinterpret_cast<const char *>(c + uint64_t(i) * ldc), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char *>(c + uint64_t(i) * ldc + Vectors * kLanes - 1), _MM_HINT_T0);
  }
  // Few addresses are kept in registers; four values of k share their arithmetic, which otherwise is what limits the
  // loop: 6 cycles for 12 multiply-adds, 8 loads and what counts.
  constexpr uint64_t kUnrolled = 4, kStep = Packed ? uint64_t(kRows) : 1;
  const float *fourth = a + 3 * lda;
  uint64_t k = 0;
  for (; k + kUnrolled <= depth; k += kUnrolled) {
#pragma GCC unroll 4
    for (uint64_t i = 0; i < kUnrolled; ++i)
      multiplyRow<Rows, Packed, Vectors>(sum, a + i * kStep, fourth + i, lda, b + i * uint64_t(kVectors * kLanes));
    a += kUnrolled * kStep;
    fourth += kUnrolled;
    b += kUnrolled * uint64_t(kVectors * kLanes);
  }
  for (; k < depth; ++k, a += kStep, ++fourth, b += uint64_t(kVectors * kLanes))
    multiplyRow<Rows, Packed, Vectors>(sum, a, fourth, lda, b);
  __m256 scale = _mm256_set1_ps(alpha);
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j) {
      float *to = c + uint64_t(i) * ldc + uint64_t(j) * kLanes;
      __m256 value = alpha == 1 ? sum[i][j] : _mm256_mul_ps(sum[i][j], scale);
      _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), value) : value);
    }
}

struct Tile {
  template <int Rows, bool Packed, int Vectors>
  static constexpr SgemmTiles::Kernel kKernel = multiplyTile<Rows, Packed, Vectors>;
};

} // namespace

const SgemmTiles &sgemmTilesAvx2() {
  static constexpr SgemmTiles tiles =
      SgemmTiles::make<Tile, kRows, kVectors * kLanes>(SgemmRows::kMostAvx2, sgemmRowsAvx2);
  return tiles;
}

} // namespace ztc
