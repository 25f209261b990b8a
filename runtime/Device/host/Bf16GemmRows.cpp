// Few rows by bf16 matrices: B is read once, as it lies. The chains of Bf16GemmTiles.cpp, and so their bits.
#include "runtime/Device/host/Avx512Lanes.h"
#include "runtime/Device/host/Bf16GemmTiles.h"
#include <algorithm>
#include <immintrin.h>
#include <utility>

#define ZTC_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace ztc {
namespace {

constexpr int kLanes = 16, kMostRows = int(Bf16Rows::kMost);

/// A pair of A for all lanes, whose values follow each other in memory.
ZTC_BF16 inline __m512bh wholePairOf(const Bf16Rows &call, uint64_t row, uint64_t k) {
  int32_t pair;
  __builtin_memcpy(&pair, call.a + row * call.lda + k, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}
/// A pair wherever it lies; what is past k is zero.
ZTC_BF16 inline __m512bh pairOf(const Bf16Rows &call, uint64_t row, uint64_t k) {
  const uint16_t *at = call.a + row * call.lda + k * call.stepA;
  const uint32_t odd = k + 1 < call.depth ? at[call.stepA] : 0;
  return (__m512bh)_mm512_set1_epi32(int(uint32_t(*at) | odd << 16));
}

/// Values under the mask, widened.
ZTC_BF16 inline __m512 widened(const uint16_t *from, __mmask16 mask) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
}

template <int Rows> ZTC_BF16 void store(const Bf16Rows &call, uint64_t column, const __m512 (&sum)[Rows]) {
  const __mmask16 mask = firstLanes(call.columns - column);
  const __m512 scale = _mm512_set1_ps(call.alpha);
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    const uint64_t offset = uint64_t(i) * call.ldc + column;
    __m512 value = call.alpha == 1 ? sum[i] : _mm512_mul_ps(sum[i], scale);
    if (!call.isNarrow) {
      float *to = static_cast<float *>(call.c.c) + offset;
      _mm512_mask_storeu_ps(to, mask, call.add ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), value) : value);
      continue;
    }
    uint16_t *to = static_cast<uint16_t *>(call.c.c) + offset;
    if (call.add)
      value = _mm512_add_ps(widened(to, mask), value);
    if (call.c.bias)
      value = _mm512_add_ps(value, widened(call.c.bias + column, mask));
    if (call.c.gelu) {
      if (call.c.sums)
        _mm256_mask_storeu_epi16(call.c.sums + offset, mask, (__m256i)_mm512_cvtneps_pbh(value));
      value = geluOf(value);
    }
    _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(value));
  }
}

/// Rows of B lie along columns of C: 16 pairs of 16 columns at a time are turned in registers.
template <int Rows> ZTC_BF16 void multiplyTurned(const Bf16Rows &call) {
  for (uint64_t column = 0; column < call.columns; column += kLanes) {
    const uint64_t present = std::min<uint64_t>(call.columns - column, kLanes);
    const uint16_t *b = call.b + column * call.ldb;
    __m512 sum[Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i)
      sum[i] = _mm512_setzero_ps();
    for (uint64_t k = 0; k < call.depth; k += 2 * kLanes) {
      const uint64_t values = std::min<uint64_t>(call.depth - k, 2 * kLanes);
      __m512 turned[16];
      if (present == kLanes && values == 2 * kLanes) {
#pragma GCC unroll 16
        for (uint64_t i = 0; i < kLanes; ++i)
          turned[i] = _mm512_loadu_ps(b + i * call.ldb + k);
      } else {
        for (uint64_t i = 0; i < kLanes; ++i)
          turned[i] = _mm512_castsi512_ps(
              _mm512_maskz_loadu_epi16(i < present ? firstValues(values) : 0, b + i * call.ldb + k));
      }
      transpose16(turned);
      if (values == 2 * kLanes && call.stepA == 1) {
#pragma GCC unroll 16
        for (uint64_t l = 0; l < kLanes; ++l)
#pragma GCC unroll 4
          for (int i = 0; i < Rows; ++i)
            sum[i] = _mm512_dpbf16_ps(sum[i], wholePairOf(call, uint64_t(i), k + 2 * l), (__m512bh)turned[l]);
        continue;
      }
      for (uint64_t l = 0; 2 * l < values; ++l)
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i)
          sum[i] = _mm512_dpbf16_ps(sum[i], pairOf(call, uint64_t(i), k + 2 * l), (__m512bh)turned[l]);
    }
    store(call, column, sum);
  }
}

/// Rows of B lie along rows of C: two of them, 32 columns, become pairs at a time.
template <int Rows> ZTC_BF16 void multiplyStraight(const Bf16Rows &call) {
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (uint64_t column = 0; column < call.columns; column += 2 * kLanes) {
    const __mmask32 mask = firstValues(call.columns - column);
    __m512 sum[2][Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i)
      sum[0][i] = sum[1][i] = _mm512_setzero_ps();
    const uint16_t *b = call.b + column;
    for (uint64_t k = 0; k < call.depth; k += 2, b += 2 * call.ldb) {
      const __m512i even = _mm512_maskz_loadu_epi16(mask, b);
      const __m512i odd = k + 1 < call.depth ? _mm512_maskz_loadu_epi16(mask, b + call.ldb) : _mm512_setzero_si512();
      const __m512bh left = (__m512bh)_mm512_permutex2var_epi16(even, low, odd);
      const __m512bh right = (__m512bh)_mm512_permutex2var_epi16(even, high, odd);
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) {
        const __m512bh factor = pairOf(call, uint64_t(i), k);
        sum[0][i] = _mm512_dpbf16_ps(sum[0][i], factor, left);
        sum[1][i] = _mm512_dpbf16_ps(sum[1][i], factor, right);
      }
    }
    store(call, column, sum[0]);
    if (column + kLanes < call.columns)
      store(call, column + kLanes, sum[1]);
  }
}

using Kernel = void (*)(const Bf16Rows &);
template <int... Rows> void multiply(const Bf16Rows &call, std::integer_sequence<int, Rows...>) {
  static constexpr Kernel kKernels[2][kMostRows] = {{multiplyStraight<Rows + 1>...}, {multiplyTurned<Rows + 1>...}};
  kKernels[call.transposeB][call.rows - 1](call);
}

} // namespace

void multiplyBf16Rows(const Bf16Rows &call) {
  multiply(call, std::make_integer_sequence<int, kMostRows>());
}

} // namespace ztc
