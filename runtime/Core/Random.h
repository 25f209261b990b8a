// Random numbers as pure functions of a key and a counter: any rank can make any element, in any order.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace ztc {

/// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 5.3).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// FNV-1a, 64 bits: the stream number of a parameter's name.
uint64_t hashName(std::string_view name);

/// Element `index` of the stream (seed, stream): standard normal by Box-Muller.
float normalAt(uint64_t seed, uint64_t stream, uint64_t index);

/// Elements [begin, begin + count) of the stream times `deviation`, equal to normalAt element by element, by at most
/// `threads` threads.
void fillNormal(float *out, uint64_t count, float deviation, uint64_t seed, uint64_t stream, uint64_t begin,
                uint32_t threads = 1);

/// Elements [begin, begin + count) of the stream, uniform in [-range, range).
void fillUniform(float *out, uint64_t count, float range, uint64_t seed, uint64_t stream, uint64_t begin);

/// A bijection of [0, count) chosen by (seed, stream): the place of element `index` in a shuffled order.
/// A Feistel network over the next even power of two, walked until it lands inside. `index` < `count`.
uint64_t permuteIndex(uint64_t index, uint64_t count, uint64_t seed, uint64_t stream);

} // namespace ztc
