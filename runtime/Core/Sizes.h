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

} // namespace ztc
