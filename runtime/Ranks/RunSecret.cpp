#include "runtime/Ranks/RunSecret.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace ztc {

Sha256Digest hmacSha256(std::string_view key, std::string_view message) {
  constexpr size_t kBlockBytes = 64;
  std::array<uint8_t, kBlockBytes> block{};
  if (key.size() > kBlockBytes) {
    const Sha256Digest digest = Sha256::of(key.data(), key.size());
    std::ranges::copy(digest, block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  std::array<uint8_t, kBlockBytes> inner, outer;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    inner[i] = block[i] ^ 0x36;
    outer[i] = block[i] ^ 0x5c;
  }
  Sha256 first;
  first.update(inner.data(), inner.size());
  first.update(message);
  const Sha256Digest within = first.finish();
  Sha256 second;
  second.update(outer.data(), outer.size());
  second.update(within.data(), within.size());
  return second.finish();
}

std::string makeNonce() {
  std::random_device random; // the kernel's
  std::string nonce;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = random();
    nonce.append(reinterpret_cast<const char *>(&word), sizeof word);
  }
  return nonce;
}

std::string proofOf(std::string_view secret, std::string_view role, std::string_view serverNonce,
                    std::string_view rankNonce, std::string_view claim) {
  std::string message;
  for (std::string_view part : {role, serverNonce, rankNonce, claim}) {
    const auto size = uint64_t(part.size()); // in front of each: no two lists of parts are one message
    message.append(reinterpret_cast<const char *>(&size), sizeof size);
    message.append(part);
  }
  const Sha256Digest digest = hmacSha256(secret, message);
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

bool isSameProof(std::string_view one, std::string_view other) {
  if (one.size() != other.size())
    return false;
  unsigned char differences = 0;
  for (size_t i = 0; i < one.size(); ++i)
    differences |= static_cast<unsigned char>(one[i] ^ other[i]);
  return differences == 0;
}

} // namespace ztc
