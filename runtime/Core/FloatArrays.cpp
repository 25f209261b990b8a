#include "runtime/Core/FloatArrays.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/FloatTypes.h"
#include <cstddef>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ztc {
namespace {

float widenOne(uint16_t bits, NarrowType type) {
  return type == NarrowType::Bf16 ? fromBf16(bits) : fromF16(bits);
}
uint16_t narrowOne(float value, NarrowType type) {
  return type == NarrowType::Bf16 ? toBf16(value) : toF16(value);
}

#if defined(__x86_64__)
#define ZTC_AVX2 __attribute__((target("avx2,f16c")))

bool hasAvx2() {
  static const bool has = hostSupports("x86-64-v3");
  return has;
}

ZTC_AVX2 inline __m256 widenEight(const uint16_t *from, NarrowType type) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
  if (type == NarrowType::F16)
    return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

ZTC_AVX2 inline __m128i narrowEight(__m256 values, NarrowType type) {
  if (type == NarrowType::F16)
    return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i bits = _mm256_castps_si256(values), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i isNan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, isNan);
  return _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
}

// Each does the multiple of eight elements it returns; the caller does the rest.
ZTC_AVX2 uint64_t widenAvx2(float *to, const uint16_t *from, uint64_t count, NarrowType type) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, widenEight(from + i, type));
  return i;
}
ZTC_AVX2 uint64_t narrowAvx2(uint16_t *to, const float *from, uint64_t count, NarrowType type) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) // in place: what is written lies below what is still to be read
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i), narrowEight(_mm256_loadu_ps(from + i), type));
  return i;
}
ZTC_AVX2 uint64_t addWidenedAvx2(float *to, const uint16_t *from, uint64_t count, NarrowType type) {
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), widenEight(from + i, type)));
  return i;
}
#undef ZTC_AVX2
#else
bool hasAvx2() {
  return false;
}
uint64_t widenAvx2(float *, const uint16_t *, uint64_t, NarrowType) {
  return 0;
}
uint64_t narrowAvx2(uint16_t *, const float *, uint64_t, NarrowType) {
  return 0;
}
uint64_t addWidenedAvx2(float *, const uint16_t *, uint64_t, NarrowType) {
  return 0;
}
#endif

} // namespace

void widen(float *to, const uint16_t *from, uint64_t count, NarrowType type) {
  for (uint64_t i = hasAvx2() ? widenAvx2(to, from, count, type) : 0; i < count; ++i)
    to[i] = widenOne(from[i], type);
}

void narrow(uint16_t *to, const float *from, uint64_t count, NarrowType type) {
  // By bytes: in place the two types see the same memory.
  auto *bytes = reinterpret_cast<std::byte *>(to);
  const auto *values = reinterpret_cast<const std::byte *>(from);
  for (uint64_t i = hasAvx2() ? narrowAvx2(to, from, count, type) : 0; i < count; ++i) {
    float value;
    __builtin_memcpy(&value, values + i * sizeof value, sizeof value);
    const uint16_t bits = narrowOne(value, type);
    __builtin_memcpy(bytes + i * sizeof bits, &bits, sizeof bits);
  }
}

void addWidened(float *to, const uint16_t *from, uint64_t count, NarrowType type) {
  for (uint64_t i = hasAvx2() ? addWidenedAvx2(to, from, count, type) : 0; i < count; ++i)
    to[i] += widenOne(from[i], type);
}

} // namespace ztc
