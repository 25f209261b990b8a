// The choice of the next token.
#pragma once
#include <cstdint>
#include <span>

namespace ztc {

struct Sampling {
  double temperature = 0; ///< 0: the likeliest token, the lowest of equals
  uint64_t topK = 0;      ///< only the K likeliest; 0: all
  double topP = 1;        ///< of these only the likeliest that together have this share, at least one
  uint64_t seed = 0;
};

/// Temperature, then top-k, then top-p, as transformers has them. The same for the same logits, seed, text and place:
/// the random number is a function of these (Philox). `logits` is not empty; a token whose logit is not a number is
/// never chosen where another one is.
int32_t chooseToken(std::span<const float> logits, const Sampling &sampling, uint64_t text, uint64_t place);

} // namespace ztc
