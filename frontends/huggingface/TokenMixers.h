// What stands in attention's place in layers that carry a state from token to token.
#pragma once
#include "frontends/huggingface/Activation.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace ztc::huggingface {

/// A gated short convolution (arXiv:2511.23404, section 2): one projection gives B, C and x of the hidden size each;
/// C times the causal convolution of B * x goes through another projection.
struct ShortConvolution {
  int64_t taps = 3;
  bool bias = false; ///< of the convolution and both projections
};

/// The gated delta rule (arXiv:2412.06464, equation 10): a state (key width, value width) per head of values decays by
/// exp(-exp(A_log) * softplus(a + dt_bias)), and what it says of the normalised key moves towards the value by
/// sigmoid(b). Queries, keys and values go through a causal convolution first.
struct DeltaNet {
  int64_t keyHeads = 0, valueHeads = 0;     ///< as many heads of values as there are share one of queries and keys
  int64_t keyWidth = 0, valueWidth = 0;     ///< of a head
  int64_t taps = 4;                         ///< of the convolution
  Activation activation = Activation::Silu; ///< of its result
  double epsilon = 1e-6;                    ///< of the norm of the result
  /// How the inputs are projected.
  enum class Projections {
    HeadBlocks, ///< for each head of keys: query, key, values, gates of them; and b, a (Qwen3-Next)
    Kinds,      ///< queries with keys and values; gates; b; a (Qwen 3.5)
    Apart,      ///< six projections, each with a convolution of its own where checkpoints have three (OLMo hybrid)
  } projections = Projections::Kinds;
  /// Each row of a state decays by itself, and what decays it and gates the result comes through layers of a head's
  /// width (arXiv:2510.26692, section 3): heads of values are those of keys, as wide.
  bool decaysByRow = false;
  bool gateIsSigmoid = false;  ///< not SiLU
  bool betaReachesTwo = false; ///< 2 sigmoid(b): the state may change sign (arXiv:2411.12537, section 4)
};

/// Mamba 2 (arXiv:2405.21060, section 7.1): one projection gives a gate, what a causal convolution reads (x, B, C) and
/// a step for each head. A head's state (state width, head width) decays by exp(-exp(A_log) * step) and takes B * step
/// * x; its result is what C reads of it, and D * x. Where `Layer::attendsToo`, attention reads the same input.
struct StateSpace {
  int64_t heads = 0, headWidth = 0;
  int64_t groups = 1; ///< as many heads as there are share one of B and C
  int64_t stateWidth = 0, taps = 4;
  bool bias = false, outputBias = false, convolutionBias = true;
  Activation activation = Activation::Silu; ///< of the convolution's result
  double leastStep = 0;                     ///< steps are clamped
  std::optional<double> mostStep;
  /// Of the result: times silu(gate), and a root mean square norm.
  enum class Gate { Alone, BeforeNorm, AfterNorm } gate = Gate::BeforeNorm;
  int64_t normGroups = 1; ///< parts of the result with a mean square of their own
  double epsilon = 1e-6;
  double inputScale = 1, resultScale = 1;
  std::vector<double> scales; ///< of what is projected to gate, x, B, C and steps, where it is not empty
};

/// Mamba (arXiv:2312.00752, algorithm 2): one projection gives what a causal convolution reads, x, and a gate; of x
/// others give a step for each channel, through a narrow layer, B and C. A channel's state (state width) decays by
/// exp(-exp(A_log) * step), each number by itself, and takes step * x * B; its result is what C reads of it, and D * x,
/// times silu(gate).
struct SelectiveScan {
  int64_t channels = 0, stateWidth = 16, rank = 0, taps = 4;
  bool bias = false, convolutionBias = true;
  Activation activation = Activation::Silu; ///< of the convolution's result
  std::optional<double> epsilon;            ///< of root mean square norms of the narrow steps, B and C
  bool normsHaveWeights = false;
};

/// A real-gated linear recurrent unit (arXiv:2402.19427, section 2.4): a number for each channel decays by
/// a = exp(-8 * softplus(recurrent_param) * r) and takes sqrt(1 - a^2) * i * x, where r and i are sigmoids of what a
/// matrix for each head of channels makes of x, a causal convolution of a projection. Its result is multiplied by an
/// activation of another projection. Projections and the convolution have biases.
struct GatedRecurrence {
  int64_t channels = 0, heads = 0, taps = 4;
  Activation activation = Activation::GeluTanh;
};

/// Lightning attention (arXiv:2501.08313, section 2.2): an activation of queries, keys and values; a state (width,
/// width) of each head decays by exp(-slope) from token to token. Its result has a norm over all heads and is
/// multiplied by the sigmoid of a projection.
struct LightningAttention {
  int64_t heads = 0, width = 0; ///< of a head
  std::vector<double> slopes;   ///< of each head
  Activation activation = Activation::Silu;
};

} // namespace ztc::huggingface
