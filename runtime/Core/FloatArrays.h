// Whole arrays between f32 and the narrow floating-point types: the same bits as FloatTypes.h, vectorised.
#pragma once
#include <cstdint>

namespace ztc {

/// The floating-point types of two bytes.
enum class NarrowType { Bf16, F16 };

/// `to[i]` = `from[i]`, which is exact. The arrays do not overlap.
void widen(float *to, const uint16_t *from, uint64_t count, NarrowType type);

/// `to[i]` = `from[i]` rounded to nearest even. `to` may begin where `from` begins, then it replaces it; else they do
/// not overlap.
void narrow(uint16_t *to, const float *from, uint64_t count, NarrowType type);

/// `to[i]` += `from[i]`, in f32. The arrays do not overlap.
void addWidened(float *to, const uint16_t *from, uint64_t count, NarrowType type);

} // namespace ztc
