// Byte counts as people write them.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <string>
#include <string_view>

namespace ztc {

/// Reads "78GiB", "512 MiB", "80GB", "1e9", "4096": bytes, with KiB..TiB as powers of 1024 and KB..TB as powers of 1000
/// (units in any case, a lone K, M, G, T is the power of 1024). InvalidArgument where it is not a size or exceeds 2^63.
StatusOr<uint64_t> parseSize(std::string_view text);

/// Three significant digits in the largest fitting binary unit: "512 B", "1.50 KiB", "78.0 GiB".
std::string formatSize(uint64_t bytes);

/// ceil(value / multiple) * multiple. `multiple` > 0; the caller rules out overflow.
constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The size of the pieces, each but the last a multiple of `grain`, that [0, extent) is cut into evenly so that none is
/// larger than `largest`, rounded up to `grain`.
constexpr uint64_t evenPiece(uint64_t extent, uint64_t largest, uint64_t grain) {
  const uint64_t pieces = (extent + largest - 1) / largest;
  return roundUp((extent + pieces - 1) / pieces, grain);
}

} // namespace ztc
