#include "runtime/Device/host/Avx512Lanes.h"
#include "runtime/Device/host/SgemmTiles.h"
#include <algorithm>
#include <immintrin.h>

#define ZTC_AVX512 __attribute__((target("avx512f")))

namespace ztc {
namespace {

constexpr int kLanes = 16, kMostRows = 4;

template <int Rows> ZTC_AVX512 void store(const SgemmRows &call, uint64_t column, const __m512 (&sum)[Rows]) {
  const __mmask16 mask = firstLanes(call.columns - column);
  const __m512 scale = _mm512_set1_ps(call.alpha);
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
    float *to = call.c + uint64_t(i) * call.ldc + column;
    const __m512 value = call.alpha == 1 ? sum[i] : _mm512_mul_ps(sum[i], scale);
    _mm512_mask_storeu_ps(to, mask, call.add ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), value) : value);
  }
}

/// Rows of B lie along columns of C: 16 values of k of 16 columns at a time are turned in registers.
template <int Rows> ZTC_AVX512 void multiplyTurned(const SgemmRows &call) {
  for (uint64_t column = 0; column < call.columns; column += kLanes) {
    const uint64_t present = std::min<uint64_t>(call.columns - column, kLanes);
    const float *b = call.b + column * call.ldb;
    __m512 sum[Rows];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i)
      sum[i] = _mm512_setzero_ps();
    for (uint64_t k = 0; k < call.depth; k += kLanes) {
      const uint64_t length = std::min<uint64_t>(call.depth - k, kLanes);
      __m512 turned[16];
      if (present == kLanes && length == kLanes) {
#pragma GCC unroll 16
        for (uint64_t i = 0; i < kLanes; ++i)
          turned[i] = _mm512_loadu_ps(b + i * call.ldb + k);
      } else {
        for (uint64_t i = 0; i < kLanes; ++i)
          turned[i] = _mm512_maskz_loadu_ps(i < present ? firstLanes(length) : __mmask16(0), b + i * call.ldb + k);
      }
      transpose16(turned);
      const float *a = call.a + k * call.stepA;
      if (length == kLanes) {
#pragma GCC unroll 16
        for (uint64_t l = 0; l < kLanes; ++l)
#pragma GCC unroll 8
          for (int i = 0; i < Rows; ++i)
            sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[uint64_t(i) * call.lda + l * call.stepA]), turned[l], sum[i]);
        continue;
      }
      for (uint64_t l = 0; l < length; ++l)
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i)
          sum[i] = _mm512_fmadd_ps(_mm512_set1_ps(a[uint64_t(i) * call.lda + l * call.stepA]), turned[l], sum[i]);
    }
    store(call, column, sum);
  }
}

/// Rows of B lie along rows of C: `kVectors` vectors of columns at a time.
template <int Rows> ZTC_AVX512 void multiplyStraight(const SgemmRows &call) {
  constexpr int kVectors = 4;
  for (uint64_t column = 0; column < call.columns; column += kVectors * kLanes) {
    __mmask16 mask[kVectors];
    __m512 sum[kVectors][Rows];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const uint64_t first = column + uint64_t(j * kLanes);
      mask[j] = firstLanes(call.columns > first ? call.columns - first : 0);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i)
        sum[j][i] = _mm512_setzero_ps();
    }
    const float *b = call.b + column;
    for (uint64_t k = 0; k < call.depth; ++k, b += call.ldb) {
      __m512 right[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        right[j] = _mm512_maskz_loadu_ps(mask[j], b + j * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) {
        const __m512 factor = _mm512_set1_ps(call.a[uint64_t(i) * call.lda + k * call.stepA]);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j)
          sum[j][i] = _mm512_fmadd_ps(factor, right[j], sum[j][i]);
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

void sgemmRowsAvx512(const SgemmRows &call) {
  static_assert(kMostRows == SgemmRows::kMostAvx512);
  multiply(call, std::make_integer_sequence<int, kMostRows>());
}

} // namespace ztc
