// SHA-256 (FIPS 180-4), incremental.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ztc {

using Sha256Digest = std::array<uint8_t, 32>;

/// Hashes bytes as they come. Uses the processor's SHA instructions where there are some.
class Sha256 {
public:
  Sha256();
  void update(const void *data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// The digest of everything so far. The object must not be used afterwards.
  Sha256Digest finish();

  static Sha256Digest of(const void *data, size_t bytes);
  static std::string hex(const Sha256Digest &digest); ///< 64 lower-case digits

private:
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_{};
  size_t inBlock_ = 0;
  uint64_t total_ = 0;
};

} // namespace ztc
