#include "runtime/Core/Crc32c.h"
#include <array>

namespace ztc {

/// The checksum of each byte.
static constexpr std::array<uint32_t, 256> makeTable() {
  constexpr uint32_t kReflectedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ (remainder & 1 ? kReflectedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

uint32_t crc32c(const void *data, size_t bytes) {
  static constexpr std::array<uint32_t, 256> kTable = makeTable();
  const auto *at = static_cast<const unsigned char *>(data);
  uint32_t checksum = ~uint32_t(0);
  for (size_t i = 0; i < bytes; ++i)
    checksum = (checksum >> 8) ^ kTable[(checksum ^ at[i]) & 0xFF];
  return ~checksum;
}

} // namespace ztc
