#include "runtime/Core/Sha256.h"
#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ztc {

alignas(16) static constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t loadBigEndian(const uint8_t *p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | uint32_t(p[3]);
}

/// FIPS 180-4 section 6.2.2, as written there.
static void compressPlain(uint32_t *state, const uint8_t *data, size_t blocks) {
  for (; blocks; --blocks, data += 64) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t)
      w[t] = loadBigEndian(data + 4 * t);
    for (int t = 16; t < 64; ++t) {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
             h = state[7];
    for (int t = 0; t < 64; ++t) {
      const uint32_t t1 =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g,
        state[7] += h;
  }
}

#if defined(__x86_64__)
static bool hasShaInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29)) && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("ssse3");
}

/// The same on the SHA extensions: four rounds at a time, state as ABEF and CDGH (Intel SDM, SHA256RNDS2).
__attribute__((target("sha,sse4.1,ssse3"))) static void compressSha(uint32_t *state, const uint8_t *data,
                                                                    size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i *>(state));
  __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i *>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks; --blocks, data += 64) {
    const __m128i abefBefore = abef, cdghBefore = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(data + 16 * i)), swap);
    for (int group = 0; group < 16; ++group) {
      if (group >= 4) {
        // w[t] = s1(w[t-2]) + w[t-7] + s0(w[t-15]) + w[t-16], four t at once.
        __m128i next = _mm_sha256msg1_epu32(w[0], w[1]);
        next = _mm_add_epi32(next, _mm_alignr_epi8(w[3], w[2], 4));
        next = _mm_sha256msg2_epu32(next, w[3]);
        w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
      }
      const __m128i words = group >= 4 ? w[3] : w[group];
      __m128i sum = _mm_add_epi32(words, _mm_load_si128(reinterpret_cast<const __m128i *>(kRound.data() + 4 * group)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0e);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  dcba = _mm_blend_epi16(feba, dchg, 0xf0);
  hgfe = _mm_alignr_epi8(dchg, feba, 8);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state), dcba);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(state + 4), hgfe);
}
#endif

static void compress(uint32_t *state, const uint8_t *data, size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = hasShaInstructions();
  if (fast)
    return compressSha(state, data, blocks);
#endif
  compressPlain(state, data, blocks);
}

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::update(const void *data, size_t bytes) {
  const auto *p = static_cast<const uint8_t *>(data);
  total_ += bytes;
  if (inBlock_ && bytes) {
    const size_t take = std::min(bytes, 64 - inBlock_);
    std::memcpy(block_.data() + inBlock_, p, take);
    inBlock_ += take, p += take, bytes -= take;
    if (inBlock_ == 64) {
      compress(state_.data(), block_.data(), 1);
      inBlock_ = 0;
    }
  }
  if (const size_t blocks = bytes / 64) {
    compress(state_.data(), p, blocks);
    p += blocks * 64, bytes -= blocks * 64;
  }
  if (bytes) {
    std::memcpy(block_.data() + inBlock_, p, bytes);
    inBlock_ += bytes;
  }
}

Sha256Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  static constexpr uint8_t kPadding[64] = {0x80};
  update(kPadding, (inBlock_ < 56 ? 56 : 120) - inBlock_);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(length, 8);
  Sha256Digest digest;
  for (size_t i = 0; i < 32; ++i)
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest Sha256::of(const void *data, size_t bytes) {
  Sha256 hash;
  hash.update(data, bytes);
  return hash.finish();
}

std::string Sha256::hex(const Sha256Digest &digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

} // namespace ztc
