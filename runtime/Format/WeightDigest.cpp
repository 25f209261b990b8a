#include "runtime/Format/WeightDigest.h"

namespace ztc {

Sha256Digest digestOfWeights(std::span<const std::byte> bytes) {
  constexpr size_t kWhole = 1 << 20, kBlocks = 64, kBlockBytes = 4096;
  if (bytes.size() <= kWhole)
    return Sha256::of(bytes.data(), bytes.size());
  Sha256 hash;
  const uint64_t size = bytes.size();
  hash.update(&size, sizeof size);
  const size_t last = bytes.size() - kBlockBytes;
  for (size_t i = 0; i < kBlocks; ++i)
    hash.update(bytes.data() + (i + 1 == kBlocks ? last : last / (kBlocks - 1) * i), kBlockBytes);
  return hash.finish();
}

} // namespace ztc
