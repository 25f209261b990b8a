// What tells a tensor's bytes from others without reading all of them: plans keep it, so that weights that were
// replaced after the compilation are noticed.
#pragma once
#include "runtime/Core/Sha256.h"
#include <cstddef>
#include <span>

namespace ztc {

/// SHA-256 of all bytes up to 1 MiB; of longer tensors of 64 blocks of 4 KiB, the first, the last and those between at
/// equal distances. Another tensor, a shifted or a retrained one is always noticed, a hole of zeros that lies between
/// two blocks is not. A model of 70 billion parameters takes a second.
Sha256Digest digestOfWeights(std::span<const std::byte> bytes);

} // namespace ztc
