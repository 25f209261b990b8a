#include "runtime/Device/host/AmxGemmTiles.h"
#include "runtime/Device/host/Avx512Lanes.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <immintrin.h>

#define ZTC_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl")))

namespace ztc {
namespace {

constexpr uint64_t kLanes = 16;
constexpr int64_t kStrideB = AmxTiles::kColumns * sizeof(uint32_t);
/// How many rows ahead of those that are read the cache is told of.
constexpr uint64_t kAhead = AmxTiles::kStep;

/// What LDTILECFG reads.
struct alignas(64) Configuration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};

/// Rows of the eight registers, of 64 bytes each.
ZTC_AMX void configure(std::array<uint8_t, 8> rows) {
  Configuration configuration;
  for (size_t tile = 0; tile < rows.size(); ++tile) {
    configuration.rows[tile] = rows[tile];
    configuration.rowBytes[tile] = rows[tile] ? uint16_t(AmxTiles::kTileBytes / AmxTiles::kTileRows) : 0;
  }
  _tile_loadconfig(&configuration);
}

/// Registers 0 to 3 are sums, row by row; 4 and 5 tiles of A, 6 and 7 of B.
template <int Rows, int Columns>
ZTC_AMX inline void step(const char *a, uint64_t tileA, int64_t strideA, const void *b) {
  const auto *right = static_cast<const char *>(b);
  _tile_loadd(4, a, strideA);
  _tile_loadd(6, right, kStrideB);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Columns == 2) {
    _tile_loadd(7, right + kStrideB / 2, kStrideB);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (Rows == 2) {
    _tile_loadd(5, a + tileA, strideA);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (Columns == 2)
      _tile_dpbf16ps(3, 5, 7);
  }
}

template <int Rows, int Columns> ZTC_AMX void multiplyTiles(const AmxTiles::Call &call) {
  constexpr uint64_t kBelow = AmxTiles::kTileRows * AmxTiles::kColumns;
  if (call.sums) {
    _tile_loadd(0, call.sums, kStrideB);
    if constexpr (Columns == 2)
      _tile_loadd(1, call.sums + kLanes, kStrideB);
    if constexpr (Rows == 2)
      _tile_loadd(2, call.sums + kBelow, kStrideB);
    if constexpr (Rows == 2 && Columns == 2)
      _tile_loadd(3, call.sums + kBelow + kLanes, kStrideB);
  } else {
    _tile_zero(0);
    if constexpr (Columns == 2)
      _tile_zero(1);
    if constexpr (Rows == 2)
      _tile_zero(2);
    if constexpr (Rows == 2 && Columns == 2)
      _tile_zero(3);
  }
  constexpr uint64_t kStepB = AmxTiles::kStep / 2 * AmxTiles::kColumns;
  const char *a = static_cast<const char *>(call.a);
  const uint32_t *b = call.b;
  for (uint64_t i = 0; i < call.steps; ++i, a += call.stepA, b += kStepB)
    step<Rows, Columns>(a, call.tileA, int64_t(call.strideA), b);
  if (call.tail)
    step<Rows, Columns>(static_cast<const char *>(call.tail), AmxTiles::kTileBytes,
                        AmxTiles::kTileBytes / AmxTiles::kTileRows, b);
  const auto stride = int64_t(call.ldTo * sizeof(float));
  _tile_stored(0, call.to, stride);
  if constexpr (Columns == 2)
    _tile_stored(1, call.to + kLanes, stride);
  if constexpr (Rows == 2)
    _tile_stored(2, call.to + AmxTiles::kTileRows * call.ldTo, stride);
  if constexpr (Rows == 2 && Columns == 2)
    _tile_stored(3, call.to + AmxTiles::kTileRows * call.ldTo + kLanes, stride);
}

/// Two rows of 32 values into pairs: the first 16 of them, then the others.
struct Pairs {
  __m512i first, second;
};
ZTC_AMX inline Pairs pairsOf(__m512i even, __m512i odd) {
  alignas(64) static constexpr uint16_t kFirst[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i order = _mm512_load_si512(kFirst);
  return {_mm512_permutex2var_epi16(even, order, odd),
          _mm512_permutex2var_epi16(even, _mm512_add_epi16(order, _mm512_set1_epi16(16)), odd)};
}

} // namespace

void AmxTiles::begin(uint64_t rows) {
  const auto upper = uint8_t(std::min(rows, kTileRows)), lower = uint8_t(rows - upper);
  configure({upper, upper, lower, lower, upper, lower, kTileRows, kTileRows});
}

ZTC_AMX void AmxTiles::end() {
  _tile_release();
}

void AmxTiles::multiply(const Call &call, uint64_t rows, uint64_t columns) {
  using Kernel = void (*)(const Call &);
  static constexpr Kernel kKernels[2][2] = {{multiplyTiles<1, 1>, multiplyTiles<1, 2>},
                                            {multiplyTiles<2, 1>, multiplyTiles<2, 2>}};
  kKernels[rows > kTileRows][columns > kLanes](call);
}

ZTC_AMX void AmxTiles::copyRows(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t tile,
                                void *to) {
  for (uint64_t first = 0; first < rows; first += kTileRows) {
    const uint64_t present = std::min(kTileRows, rows - first);
    char *out = static_cast<char *>(to) + first / kTileRows * tile;
    for (uint64_t row = 0; row < present; ++row) {
      const uint16_t *from = a + (first + row) * ld;
      char *at = out + row * (kTileBytes / kTileRows);
      for (uint64_t k = 0; k < values; k += kStep, at += kTileBytes)
        _mm512_store_si512(at, _mm512_maskz_loadu_epi16(firstValues(values - k), from + k));
    }
  }
}

ZTC_AMX void AmxTiles::packTransposed(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t tile,
                                      void *to) {
  for (uint64_t k = 0; k < values; k += kStep)
    for (uint64_t row = 0; row < rows; row += 2 * kTileRows) {
      const __mmask32 mask = firstValues(rows - row);
      const uint16_t *from = a + k * ld + row;
      __m512 upper[kLanes], lower[kLanes];
#pragma GCC unroll 16
      for (uint64_t pair = 0; pair < kLanes; ++pair) {
        const uint64_t at = 2 * pair;
        const __m512i even = k + at < values ? _mm512_maskz_loadu_epi16(mask, from + at * ld) : _mm512_setzero_si512();
        const __m512i odd =
            k + at + 1 < values ? _mm512_maskz_loadu_epi16(mask, from + (at + 1) * ld) : _mm512_setzero_si512();
        const auto [first, second] = pairsOf(even, odd);
        upper[pair] = _mm512_castsi512_ps(first);
        lower[pair] = _mm512_castsi512_ps(second);
      }
      char *out = static_cast<char *>(to) + row / kTileRows * tile + k / kStep * kTileBytes;
      transpose16(upper);
#pragma GCC unroll 16
      for (uint64_t i = 0; i < kTileRows; ++i)
        _mm512_store_ps(out + i * (kTileBytes / kTileRows), upper[i]);
      if (row + kTileRows >= rows)
        continue;
      transpose16(lower);
#pragma GCC unroll 16
      for (uint64_t i = 0; i < kTileRows; ++i)
        _mm512_store_ps(out + tile + i * (kTileBytes / kTileRows), lower[i]);
    }
}

ZTC_AMX void AmxTiles::turn(const float *sums, float *to) {
  for (uint64_t row = 0; row < kRows; row += kLanes)
    for (uint64_t column = 0; column < kColumns; column += kLanes) {
      __m512 lines[kLanes];
#pragma GCC unroll 16
      for (uint64_t i = 0; i < kLanes; ++i)
        lines[i] = _mm512_load_ps(sums + (row + i) * kColumns + column);
      transpose16(lines);
#pragma GCC unroll 16
      for (uint64_t i = 0; i < kLanes; ++i)
        _mm512_store_ps(to + (column + i) * kColumns + row, lines[i]);
    }
}

void AmxRows::begin(uint64_t rows) {
  const auto few = uint8_t(rows);
  configure({few, few, few, few, few, 0, AmxTiles::kTileRows, AmxTiles::kTileRows});
}

ZTC_AMX void AmxRows::multiply(const void *a, const uint16_t *b, uint64_t ldb, uint64_t values, uint64_t columns,
                               float *sums) {
  constexpr uint64_t kPairs = AmxTiles::kStep / 2, kHalf = kColumns / 2;
  constexpr int64_t kStride = kColumns * sizeof(uint32_t), kTile = kLanes * sizeof(uint32_t);
  constexpr int64_t kStrideA = AmxTiles::kTileBytes / AmxTiles::kTileRows, kStrideSums = kHalf * sizeof(float);
  alignas(64) uint32_t pairs[kPairs * kColumns];
  const __mmask32 left = firstValues(columns), right = columns > kHalf ? firstValues(columns - kHalf) : 0;
  const char *tileOfA = static_cast<const char *>(a);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint64_t k = 0; k < values; k += AmxTiles::kStep, tileOfA += AmxTiles::kTileBytes) {
    const uint64_t ahead = k + kAhead;
    for (uint64_t pair = 0; pair < kPairs; ++pair) {
      const uint64_t even = k + 2 * pair;
      uint32_t *to = pairs + pair * kColumns;
      for (uint64_t half = 0; half < 2; ++half) {
        const __mmask32 mask = half ? right : left;
        const uint16_t *at = b + even * ldb + half * kHalf;
        const __m512i first = even < values ? _mm512_maskz_loadu_epi16(mask, at) : _mm512_setzero_si512();
        const __m512i second = even + 1 < values ? _mm512_maskz_loadu_epi16(mask, at + ldb) : _mm512_setzero_si512();
        const Pairs turned = pairsOf(first, second);
        _mm512_store_si512(to + half * kHalf, turned.first);
        _mm512_store_si512(to + half * kHalf + kLanes, turned.second);
        if (ahead + 2 * pair + 1 < values) {
          const uint16_t *next = b + (ahead + 2 * pair) * ldb + half * kHalf;
          _mm_prefetch(reinterpret_cast<const char *>(next), _MM_HINT_T0);
          _mm_prefetch(reinterpret_cast<const char *>(next + ldb), _MM_HINT_T0);
        }
      }
    }
    const auto *panel = reinterpret_cast<const char *>(pairs);
    _tile_loadd(4, tileOfA, kStrideA);
    _tile_loadd(6, panel, kStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, panel + kTile, kStride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(6, panel + 2 * kTile, kStride);
    _tile_dpbf16ps(2, 4, 6);
    _tile_loadd(7, panel + 3 * kTile, kStride);
    _tile_dpbf16ps(3, 4, 7);
  }
  float *second = sums + AmxTiles::kRows * AmxTiles::kColumns;
  _tile_stored(0, sums, kStrideSums);
  _tile_stored(1, sums + kLanes, kStrideSums);
  _tile_stored(2, second, kStrideSums);
  _tile_stored(3, second + kLanes, kStrideSums);
}

} // namespace ztc
