#include "runtime/Device/host/AmxGemmTiles.h"
#include "runtime/Device/host/Avx512Lanes.h"
#include <algorithm>
#include <immintrin.h>

#define ZTC_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl")))

namespace ztc {
namespace {

constexpr uint64_t kLanes = 16;
constexpr int64_t kStrideB = AmxTiles::kColumns * sizeof(uint32_t);
/// How many rows ahead of the one that is packed the cache is told of.
constexpr uint64_t kAhead = 16;

/// What LDTILECFG reads.
struct alignas(64) Configuration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};

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

} // namespace

ZTC_AMX void AmxTiles::begin(uint64_t rows) {
  constexpr uint16_t kRowBytes = uint16_t(kTileBytes / kTileRows);
  const auto upper = uint8_t(std::min(rows, kTileRows)), lower = uint8_t(rows - upper);
  Configuration configuration;
  for (int tile : {0, 1, 4})
    configuration.rows[tile] = upper;
  for (int tile : {2, 3, 5})
    configuration.rows[tile] = lower;
  configuration.rows[6] = configuration.rows[7] = uint8_t(kTileRows);
  for (int tile = 0; tile < 8; ++tile)
    configuration.rowBytes[tile] = configuration.rows[tile] ? kRowBytes : 0;
  _tile_loadconfig(&configuration);
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
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
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
        upper[pair] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(even, low, odd));
        lower[pair] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(even, high, odd));
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

} // namespace ztc
