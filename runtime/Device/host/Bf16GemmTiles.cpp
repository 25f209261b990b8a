#include "runtime/Device/host/Bf16GemmTiles.h"
#include "runtime/Device/host/Avx512Lanes.h"
#include <algorithm>
#include <array>
#include <immintrin.h>
#include <utility>

#define ZTC_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace ztc {
namespace {

constexpr int kRows = int(Bf16Tiles::kRows), kLanes = 16, kColumns = int(Bf16Tiles::kColumns);
/// How many rows ahead of the one that is packed the cache is told of.
constexpr uint64_t kAhead = 8;

/// A pair of A for all lanes.
ZTC_BF16 inline __m512bh pairOf(const uint16_t *at) {
  int32_t pair;
  __builtin_memcpy(&pair, at, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

/// 24 of 32 registers are sums; as in SgemmTilesAvx512.cpp.
template <int Rows, bool Packed, int Vectors> ZTC_BF16 void multiplyTile(const Bf16Tiles::Call &call) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      sum[i][j] = call.sums ? _mm512_load_ps(call.sums + i * kColumns + j * kLanes) : _mm512_setzero_ps();
      _mm_prefetch(reinterpret_cast<const char *>(call.to + uint64_t(i) * call.ldTo + uint64_t(j) * kLanes),
                   _MM_HINT_T0);
    }
  const uint64_t lda = call.lda;
  const uint16_t *a = call.a;
  const uint16_t *third[(kRows + 2) / 3];
#pragma GCC unroll 4
  for (int i = 0; i < (kRows + 2) / 3; ++i)
    third[i] = Packed ? a : a + uint64_t(3 * i) * lda;
  const uint32_t *b = call.b;
  const bool hasRest = !Packed && call.isOdd;
  const uint64_t pairs = call.pairs - (hasRest ? 1 : 0);
  for (uint64_t k = 0; k < pairs; ++k, b += kColumns) {
    __m512bh right[Vectors];
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j)
      right[j] = (__m512bh)_mm512_load_si512(b + j * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const __m512bh factor =
          pairOf(Packed ? a + (k * kRows + uint64_t(i)) * 2 : third[i / 3] + uint64_t(i % 3) * lda + 2 * k);
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], factor, right[j]);
    }
  }
  if (hasRest)
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const uint16_t last = third[i / 3][uint64_t(i % 3) * lda + 2 * pairs];
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] =
            _mm512_dpbf16_ps(sum[i][j], (__m512bh)_mm512_set1_epi32(last), (__m512bh)_mm512_load_si512(b + j * kLanes));
    }
  const __m512 scale = _mm512_set1_ps(call.alpha);
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) {
      float *to = call.to + uint64_t(i) * call.ldTo + uint64_t(j) * kLanes;
      const __m512 value = call.alpha == 1 ? sum[i][j] : _mm512_mul_ps(sum[i][j], scale);
      _mm512_storeu_ps(to, call.add ? _mm512_add_ps(_mm512_loadu_ps(to), value) : value);
    }
}

using Kernel = void (*)(const Bf16Tiles::Call &);
template <bool Packed, int Vectors, int... Rows>
constexpr std::array<Kernel, kRows> kernels(std::integer_sequence<int, Rows...>) {
  return {multiplyTile<Rows + 1, Packed, Vectors>...};
}
constexpr std::make_integer_sequence<int, kRows> kAllRows;
/// By vectors - 1, packed A or not, rows - 1.
constexpr std::array<Kernel, kRows> kKernels[2][2] = {{kernels<false, 1>(kAllRows), kernels<true, 1>(kAllRows)},
                                                      {kernels<false, 2>(kAllRows), kernels<true, 2>(kAllRows)}};

ZTC_BF16 inline __m512 widenVector(__m256i values) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
}

} // namespace

void Bf16Tiles::multiply(const Call &call, uint64_t rows, bool isPacked, uint64_t columns) {
  kKernels[columns > kLanes][isPacked][rows - 1](call);
}

ZTC_BF16 void Bf16Tiles::narrow(const float *sums, uint64_t rows, uint64_t columns, float alpha, bool add,
                                ProductResult result, uint64_t ldTo) {
  const __m512 scale = _mm512_set1_ps(alpha);
  const __mmask32 mask = firstValues(columns);
  const __m512i ofColumns = result.bias ? _mm512_maskz_loadu_epi16(mask, result.bias) : _mm512_setzero_si512();
  auto *to = static_cast<uint16_t *>(result.c);
  for (uint64_t row = 0; row < rows; ++row, sums += kColumns, to += ldTo) {
    __m512 left = _mm512_load_ps(sums), right = _mm512_load_ps(sums + kLanes);
    if (alpha != 1) {
      left = _mm512_mul_ps(left, scale);
      right = _mm512_mul_ps(right, scale);
    }
    if (add) {
      const __m512i before = _mm512_maskz_loadu_epi16(mask, to);
      left = _mm512_add_ps(widenVector(_mm512_castsi512_si256(before)), left);
      right = _mm512_add_ps(widenVector(_mm512_extracti64x4_epi64(before, 1)), right);
    }
    if (result.bias) {
      left = _mm512_add_ps(left, widenVector(_mm512_castsi512_si256(ofColumns)));
      right = _mm512_add_ps(right, widenVector(_mm512_extracti64x4_epi64(ofColumns, 1)));
    }
    if (result.gelu) {
      if (result.sums)
        _mm512_mask_storeu_epi16(result.sums + row * ldTo, mask, (__m512i)_mm512_cvtne2ps_pbh(right, left));
      left = geluOf(left);
      right = geluOf(right);
    }
    _mm512_mask_storeu_epi16(to, mask, (__m512i)_mm512_cvtne2ps_pbh(right, left));
  }
}

ZTC_BF16 void Bf16Tiles::store(const float *sums, uint64_t rows, uint64_t columns, float alpha, bool add, float *to,
                               uint64_t ldTo) {
  const __m512 scale = _mm512_set1_ps(alpha);
  for (uint64_t row = 0; row < rows; ++row, sums += kColumns, to += ldTo)
    for (int j = 0; j < 2; ++j) {
      const __mmask16 mask = __mmask16(firstValues(columns) >> (j * kLanes));
      __m512 value = _mm512_mul_ps(_mm512_load_ps(sums + j * kLanes), scale);
      if (add)
        value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to + j * kLanes), value);
      _mm512_mask_storeu_ps(to + j * kLanes, mask, value);
    }
}

ZTC_BF16 void Bf16Tiles::packRows(const uint16_t *b, uint64_t ld, uint64_t values, uint64_t columns, uint32_t *to) {
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const __mmask32 mask = firstValues(columns);
  for (uint64_t k = 0; k < values; k += 2, b += 2 * ld, to += kColumns) {
    if (k + kAhead + 1 < values) {
      _mm_prefetch(reinterpret_cast<const char *>(b + kAhead * ld), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char *>(b + (kAhead + 1) * ld), _MM_HINT_T0);
    }
    const __m512i even = _mm512_maskz_loadu_epi16(mask, b);
    const __m512i odd = k + 1 < values ? _mm512_maskz_loadu_epi16(mask, b + ld) : _mm512_setzero_si512();
    _mm512_store_si512(to, _mm512_permutex2var_epi16(even, low, odd));
    _mm512_store_si512(to + kLanes, _mm512_permutex2var_epi16(even, high, odd));
  }
}

ZTC_BF16 void Bf16Tiles::packColumns(const uint16_t *b, uint64_t ld, uint64_t values, uint64_t columns, uint32_t *to) {
  for (uint64_t half = 0; half < 2; ++half, to += kLanes, b += kLanes * ld) {
    const uint64_t present = columns > half * kLanes ? std::min<uint64_t>(columns - half * kLanes, kLanes) : 0;
    for (uint64_t k = 0; k < values; k += 32) {
      const __mmask32 mask = firstValues(values - k);
      __m512 rows[16];
      if (present == kLanes && values - k >= 32) {
#pragma GCC unroll 16
        for (uint64_t i = 0; i < 16; ++i)
          rows[i] = _mm512_loadu_ps(b + i * ld + k);
      } else {
        for (uint64_t i = 0; i < 16; ++i)
          rows[i] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(i < present ? mask : 0, b + i * ld + k));
      }
      transpose16(rows);
      uint32_t *out = to + k / 2 * kColumns;
      if (values - k >= 31) {
#pragma GCC unroll 16
        for (uint64_t i = 0; i < 16; ++i)
          _mm512_store_ps(out + i * kColumns, rows[i]);
      } else {
        for (uint64_t i = 0; 2 * i < values - k; ++i)
          _mm512_store_ps(out + i * kColumns, rows[i]);
      }
    }
  }
}

ZTC_BF16 void Bf16Tiles::packTransposed(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t panel,
                                        uint32_t *to) {
  alignas(64) static constexpr uint16_t kPairs[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kPairs);
  constexpr __mmask16 kWhole = (1u << kRows) - 1;
  for (uint64_t k = 0; k < values; k += 2, a += 2 * ld, to += kRows) {
    const bool hasOdd = k + 1 < values;
    if (k + kAhead + 1 < values)
      for (uint64_t i = 0; i < rows; i += 32) {
        _mm_prefetch(reinterpret_cast<const char *>(a + kAhead * ld + i), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char *>(a + (kAhead + 1) * ld + i), _MM_HINT_T0);
      }
    uint32_t *out = to;
    for (uint64_t row = 0; row < rows; row += kRows, out += panel) {
      const __mmask16 mask = row + kRows <= rows ? kWhole : __mmask16((1u << (rows - row)) - 1);
      const __m256i even = _mm256_maskz_loadu_epi16(mask, a + row);
      const __m256i odd = hasOdd ? _mm256_maskz_loadu_epi16(mask, a + ld + row) : _mm256_setzero_si256();
      const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1);
      _mm512_mask_storeu_epi32(out, kWhole, _mm512_permutexvar_epi16(order, both));
    }
  }
}

} // namespace ztc
