#include "runtime/Device/host/SgemmTiles.h"
#include <algorithm>
#include <immintrin.h>

#define ZTC_AVX2 __attribute__((target("avx2,fma")))

namespace ztc {
namespace {

constexpr int kLanes = 8, kMostRows = 4;

ZTC_AVX2 inline __m256i firstLanes(uint64_t count) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(std::min<uint64_t>(count, kLanes))), places);
}

/// Turns 8 x 8 floats: afterwards element j of rows[i] is what element i of rows[j] was.
ZTC_AVX2 inline void transpose(__m256 (&rows)[8]) {
  __m256 pair[8], quad[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      quad[i + 2 * half] = _mm256_shuffle_ps(pair[i + half], pair[i + 2 + half], 0x44);
      quad[i + 2 * half + 1] = _mm256_shuffle_ps(pair[i + half], pair[i + 2 + half], 0xee);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}

template <int Rows> ZTC_AVX2 void store(const SgemmRows &call, uint64_t column, const __m256 (&sum)[Rows]) {
  const __m256i mask = firstLanes(call.columns - column);
  const __m256 scale = _mm256_set1_ps(call.alpha);
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    float *to = call.c + uint64_t(i) * call.ldc + column;
    const __m256 value = call.alpha == 1 ? sum[i] : _mm256_mul_ps(sum[i], scale);
    _mm256_maskstore_ps(to, mask, call.add ? _mm256_add_ps(_mm256_maskload_ps(to, mask), value) : value);
  }
}

/// Rows of B lie along columns of C: 8 values of k of 8 columns at a time are turned in registers.
template <int Rows> ZTC_AVX2 void multiplyTurned(const SgemmRows &call) {
  for (uint64_t column = 0; column < call.columns; column += kLanes) {
    const uint64_t present = std::min<uint64_t>(call.columns - column, kLanes);
    const float *b = call.b + column * call.ldb;
    __m256 sum[Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i)
      sum[i] = _mm256_setzero_ps();
    for (uint64_t k = 0; k < call.depth; k += kLanes) {
      const uint64_t length = std::min<uint64_t>(call.depth - k, kLanes);
      const float *a = call.a + k * call.stepA;
      __m256 turned[8];
      if (present == kLanes && length == kLanes) {
#pragma GCC unroll 8
        for (uint64_t i = 0; i < kLanes; ++i)
          turned[i] = _mm256_loadu_ps(b + i * call.ldb + k);
        transpose(turned);
#pragma GCC unroll 8
        for (uint64_t l = 0; l < kLanes; ++l)
#pragma GCC unroll 4
          for (int i = 0; i < Rows; ++i)
            sum[i] = _mm256_fmadd_ps(_mm256_set1_ps(a[uint64_t(i) * call.lda + l * call.stepA]), turned[l], sum[i]);
        continue;
      }
      for (uint64_t i = 0; i < kLanes; ++i)
        turned[i] = i < present ? _mm256_maskload_ps(b + i * call.ldb + k, firstLanes(length)) : _mm256_setzero_ps();
      transpose(turned);
      for (uint64_t l = 0; l < length; ++l)
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i)
          sum[i] = _mm256_fmadd_ps(_mm256_set1_ps(a[uint64_t(i) * call.lda + l * call.stepA]), turned[l], sum[i]);
    }
    store(call, column, sum);
  }
}

/// Rows of B lie along rows of C: `kVectors` vectors of columns at a time.
template <int Rows> ZTC_AVX2 void multiplyStraight(const SgemmRows &call) {
  constexpr int kVectors = 2;
  for (uint64_t column = 0; column < call.columns; column += kVectors * kLanes) {
    __m256i mask[kVectors];
    __m256 sum[kVectors][Rows];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const uint64_t first = column + uint64_t(j * kLanes);
      mask[j] = firstLanes(call.columns > first ? call.columns - first : 0);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i)
        sum[j][i] = _mm256_setzero_ps();
    }
    const float *b = call.b + column;
    for (uint64_t k = 0; k < call.depth; ++k, b += call.ldb) {
      __m256 right[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        right[j] = _mm256_maskload_ps(b + j * kLanes, mask[j]);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) {
        const __m256 factor = _mm256_set1_ps(call.a[uint64_t(i) * call.lda + k * call.stepA]);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j)
          sum[j][i] = _mm256_fmadd_ps(factor, right[j], sum[j][i]);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      if (column + uint64_t(j * kLanes) < call.columns)
        store(call, column + uint64_t(j * kLanes), sum[j]);
  }
}

template <int... Rows> void multiply(const SgemmRows &call, std::integer_sequence<int, Rows...>) {
  static constexpr SgemmRows::Kernel kKernels[2][kMostRows] = {{multiplyStraight<Rows + 1>...},
                                                               {multiplyTurned<Rows + 1>...}};
  kKernels[call.transposeB][call.rows - 1](call);
}

} // namespace

void sgemmRowsAvx2(const SgemmRows &call) {
  static_assert(kMostRows == SgemmRows::kMostAvx2);
  multiply(call, std::make_integer_sequence<int, kMostRows>());
}

} // namespace ztc
