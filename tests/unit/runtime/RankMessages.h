// Messages of a rank that a test or a fuzz target makes up.
#pragma once
#include "runtime/Ranks/RunSecret.h"
#include "runtime/Ranks/Wire.h"
#include <string>

namespace ztc {

/// As a rank answers a greeting with `serverNonce`, with the proof of `secret`.
inline ranks::Message helloMessage(uint32_t rank, uint32_t world, const std::string &version, const std::string &secret,
                                   const std::string &serverNonce, const std::string &nonce) {
  ranks::Claim claim;
  claim.set_rank(rank);
  claim.set_world(world);
  claim.set_version(version);
  ranks::Message message;
  ranks::Hello &hello = *message.mutable_hello();
  hello.set_magic(kWireMagic);
  hello.set_version(kWireVersion);
  hello.set_nonce(nonce);
  hello.set_claim(claim.SerializeAsString());
  hello.set_proof(proofOf(secret, "rank", serverNonce, nonce, hello.claim()));
  return message;
}

} // namespace ztc
