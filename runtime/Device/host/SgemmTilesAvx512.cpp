#include "runtime/Device/host/SgemmTiles.h"
#include <immintrin.h>

#define ZTC_AVX512 __attribute__((target("avx512f")))

namespace ztc {
namespace {

/// 24 of 32 registers are sums. A multiply-add takes a value of A from memory for all lanes, so a value of k costs 24
/// multiply-adds and 14 loads: two of each fit a cycle.
constexpr int kRows = 12, kVectors = 2, kLanes = 16;

template <int Rows, bool Packed, int Vectors>
ZTC_AVX512 void multiplyTile(uint64_t depth, const float *a, uint64_t lda, const float *b, float *c, uint64_t ldc,
                             bool add, float alpha) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      sum[i][j] = _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char *>(c + uint64_t(i) * ldc + uint64_t(j) * kLanes), _MM_HINT_T0);
    }
  // Every third row of A has a pointer; the others are reached from it, so that addresses fit the general registers.
  const float *third[(kRows + 2) / 3];
#pragma GCC unroll 4
  for (int i = 0; i < (kRows + 2) / 3; ++i)
    third[i] = Packed ? a : a + uint64_t(3 * i) * lda;
  for (uint64_t k = 0; k < depth; ++k, b += kVectors * kLanes) {
    __m512 right[Vectors];
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j)
      right[j] = _mm512_load_ps(b + j * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const float *at = Packed ? a + k * kRows + uint64_t(i) : third[i / 3] + uint64_t(i % 3) * lda + k;
      const __m512 factor = _mm512_set1_ps(*at);
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = _mm512_fmadd_ps(factor, right[j], sum[i][j]);
    }
  }
  const __m512 scale = _mm512_set1_ps(alpha);
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      float *to = c + uint64_t(i) * ldc + uint64_t(j) * kLanes;
      const __m512 value = alpha == 1 ? sum[i][j] : _mm512_mul_ps(sum[i][j], scale);
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), value) : value);
    }
}

struct Tile {
  template <int Rows, bool Packed, int Vectors>
  static constexpr SgemmTiles::Kernel kKernel = multiplyTile<Rows, Packed, Vectors>;
};

} // namespace

const SgemmTiles &sgemmTilesAvx512() {
  static constexpr SgemmTiles tiles =
      SgemmTiles::make<Tile, kRows, kVectors * kLanes>(SgemmRows::kMostAvx512, sgemmRowsAvx512);
  return tiles;
}

} // namespace ztc
