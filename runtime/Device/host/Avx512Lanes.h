// What products share that compute in registers of AVX-512: the ends of rows, matrices that lie the other way round.
#pragma once
#include "runtime/Core/Gelu.h"
#include <cstdint>
#include <immintrin.h>

namespace ztc {

/// The first `count` of 16 words of 32 bits.
inline __mmask16 firstLanes(uint64_t count) {
  return count >= 16 ? __mmask16(0xffff) : __mmask16((1u << count) - 1);
}
/// The first `count` of 32 words of 16 bits.
inline __mmask32 firstValues(uint64_t count) {
  return count >= 32 ? ~__mmask32(0) : __mmask32((1u << count) - 1);
}

/// GELU, its tanh form, of each lane.
__attribute__((target("avx512f,avx512bw,avx512vl"))) inline __m512 geluOf(__m512 x) {
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, x);
  for (float &lane : lanes)
    lane = geluTanh(lane);
  return _mm512_load_ps(lanes);
}

/// Turns 16 x 16 words of 32 bits: afterwards element j of rows[i] is what element i of rows[j] was.
__attribute__((target("avx512f"))) inline void transpose16(__m512 (&rows)[16]) {
  __m512 pair[16], quad[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pair[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pair[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      quad[i + 2 * half] = _mm512_shuffle_ps(pair[i + half], pair[i + 2 + half], 0x44);
      quad[i + 2 * half + 1] = _mm512_shuffle_ps(pair[i + half], pair[i + 2 + half], 0xee);
    }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m512 low01 = _mm512_shuffle_f32x4(quad[q], quad[4 + q], 0x44);
    const __m512 low23 = _mm512_shuffle_f32x4(quad[8 + q], quad[12 + q], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(quad[q], quad[4 + q], 0xee);
    const __m512 high23 = _mm512_shuffle_f32x4(quad[8 + q], quad[12 + q], 0xee);
    rows[q] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[4 + q] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[8 + q] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[12 + q] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

} // namespace ztc
