// Frequencies of rotary embeddings, as transformers' modeling_rope_utils.py computes them, in its precisions.
#pragma once
#include "frontends/huggingface/Config.h"
#include <cstdint>
#include <vector>

namespace ztc::huggingface {

/// A kind of rotary embedding. Positions are turned by p * frequency[i], and cosine and sine are scaled.
struct Rope {
  int64_t width = 0; ///< dimensions of a head that turn, the first ones; even
  /// What frequencies are fractions of: the width, or one less, where a part of a head is an odd number.
  int64_t divisor = 0;
  bool isInterleaved = false;
  std::vector<float> frequencies; ///< (width / 2)
  /// Not below Decoder::base: a tensor (width / 2), stored and not trained, whose exponentials they are multiplied by
  /// (LeRoPE); empty: none.
  std::string exponents;
  double scale = 1; ///< of cosine and sine
  /// Beyond this many tokens in a row other frequencies hold; 0: never.
  int64_t longFrom = 0;
  std::vector<float> longFrequencies; ///< longrope
  /// dynamic: beyond `longFrom` tokens the base is theta * (factor * S / longFrom - (factor - 1)) ^
  /// (divisor / (divisor - 2)).
  double theta = 0, dynamicFactor = 0;
  double scoreScale = 1; ///< of the scores, where mscale_all_dim is there; DeepSeek's attention alone asks for it
  double queryScaleBeta = 0, queryScaleFrom = 1; ///< of Attention, where the parameters have them
  int64_t reach = 0; ///< tokens in a row that the scaling is made for; 0: it says nothing of it
};

/// What a family knows of its rotary embedding besides the parameters.
struct RopeContext {
  int64_t headWidth = 0, positions = 0;
  double theta = 10000;            ///< where no key names it
  double partialFactor = 1;        ///< where no key names it
  std::optional<int64_t> original; ///< a top-level original_max_position_embeddings, which goes first
  bool yarnIsLongrope = false;     ///< Phi-3's old names
  bool xdropeIsDynamic = false;    ///< HunYuan-VL's old name
  bool readsAlpha = false;         ///< Hunyuan: "dynamic" with alpha is another base, whatever the length of a row
  bool readsQueryScale = false;    ///< Ministral 3: llama_4_scaling_beta
  bool readsMagnitudes = false;    ///< Phi-3.5-MoE: longrope's short_mscale and long_mscale
};

/// Reads rope_parameters (version 5), or rope_theta, rope_scaling and partial_rotary_factor (version 4).
/// Errors are left in `config`.
Rope readRope(Config &config, const RopeContext &context);

/// One entry of a configuration that has a kind per layer type, or the whole where it has one; `parameters` may be
/// none. `isNested`: yarn's `truncate` is then ignored, as transformers does.
Rope ropeOf(Config &owner, std::optional<Config> parameters, const RopeContext &context, bool isNested);

} // namespace ztc::huggingface
