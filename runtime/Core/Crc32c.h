// CRC-32C (Castagnoli), the checksum of records in event files.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ztc {

/// Of `bytes` bytes: polynomial 0x1EDC6F41, reflected, as in RFC 3720, appendix B.4.
uint32_t crc32c(const void *data, size_t bytes);

} // namespace ztc
