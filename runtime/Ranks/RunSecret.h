// How the ranks of a run know one another: each end proves that it has the run's secret without saying it.
#pragma once
#include "runtime/Core/Sha256.h"
#include <cstdint>
#include <string>
#include <string_view>

namespace ztc {

/// HMAC with SHA-256 (RFC 2104).
Sha256Digest hmacSha256(std::string_view key, std::string_view message);

/// Sixteen random bytes: what makes a proof good once.
std::string makeNonce();

/// What a connection proves: that who sends `claim` has `secret`, now. `role` tells the two directions apart.
std::string proofOf(std::string_view secret, std::string_view role, std::string_view serverNonce,
                    std::string_view rankNonce, std::string_view claim);

/// Whether two proofs are equal, in a time that says nothing about where they differ.
bool isSameProof(std::string_view one, std::string_view other);

} // namespace ztc
