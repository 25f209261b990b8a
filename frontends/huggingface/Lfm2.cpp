// LFM2: gated short convolutions in most layers, attention with norms per head in the others; experts in the second.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// "conv" or "full_attention" for each layer; transformers takes any other type for attention.
static void setConvolutions(Config &config, Decoder &decoder, const std::function<bool(int64_t)> &isConvolution) {
  const std::vector<bool> convolves =
      layersOfType(config, decoder, "layer_types", "conv", "full_attention", isConvolution);
  ShortConvolution convolution;
  convolution.taps = config.integer("conv_L_cache", 3);
  convolution.bias = config.flag("conv_bias", false);
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    decoder.layers[i].attention.headNorms = HeadNorms::PerHead;
    if (convolves[i])
      decoder.layers[i].convolution = convolution;
  }
}

static void readLfm2(Config &config, Decoder &decoder, Defaults defaults) {
  if (config.has("tie_embedding"))
    config.set("tie_word_embeddings", config.flag("tie_embedding", true));
  config.set("hidden_act", "silu"); // which transformers has there, whatever the key says
  defaults.vocabulary = 65536;
  defaults.keyHeads = 8;
  defaults.positions = 128000;
  defaults.epsilon = 1e-5;
  defaults.epsilonKey = "norm_eps";
  defaults.isTied = true;
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
  decoder.finalNorm = "embedding_norm";
  BlockNames &names = decoder.names;
  names.attentionNorm = "operator_norm";
  names.feedForwardNorm = "ffn_norm";
  names.output = "out_proj";
  names.queryNorm = "q_layernorm";
  names.keyNorm = "k_layernorm";
  names.feedForward = "feed_forward";
  names.gate = names.expertGate = "w1";
  names.up = names.expertUp = "w3";
  names.down = names.expertDown = "w2";
}

/// Two thirds of the width that the configuration names, rounded up to a multiple.
static int64_t adjustedWidth(Config &config, int64_t width) {
  if (!config.flag("block_auto_adjust_ff_dim", true)) {
    config.harmless({"block_ffn_dim_multiplier", "block_multiple_of"});
    return width;
  }
  width = int64_t(double(2 * width) / 3);
  const int64_t multiple = config.integer("block_multiple_of", 256);
  if (std::optional<double> factor = config.optionalNumber("block_ffn_dim_multiplier", 1.0))
    width = (int64_t(*factor * double(width)) + multiple - 1) / multiple * multiple;
  if (width < 1 || width > INT64_C(1) << 40)
    config.fail("block_ffn_dim_multiplier makes feed-forwards of " + std::to_string(width));
  return width;
}

void fillLfm2(Config &config, Decoder &decoder) {
  if (config.has("block_ff_dim"))
    config.set("intermediate_size", config.value("block_ff_dim"));
  readLfm2(config, decoder, {.hidden = 2560, .width = 12288});
  if (decoder.layers.empty())
    return;
  const int64_t width = adjustedWidth(config, decoder.layers.front().feedForward.width);
  for (Layer &layer : decoder.layers)
    layer.feedForward.width = width;
  const std::optional<std::vector<int64_t>> attends = config.integers("full_attn_idxs");
  setConvolutions(config, decoder, [&](int64_t layer) {
    return attends && std::find(attends->begin(), attends->end(), layer) == attends->end();
  });
}

/// DeepSeek-V3's choice of experts, without groups, after the first layers.
void fillLfm2Moe(Config &config, Decoder &decoder) {
  readLfm2(config, decoder, {.hidden = 2048, .width = 7168});
  if (decoder.layers.empty())
    return;
  if (config.texts("layer_types").empty())
    config.fail(config.describe("layer_types") + "; this model type needs one for each layer");
  setConvolutions(config, decoder, [](int64_t) { return false; });
  Experts experts{.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-6};
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 32);
  experts.perToken = config.integer("num_experts_per_tok", 4);
  experts.normalised = config.flag("norm_topk_prob", true);
  experts.hasChoiceBias = config.flag("use_expert_bias", true);
  experts.scale = config.number("routed_scaling_factor", 1);
  experts.precision = Experts::Precision::Narrow;
  const int64_t first = config.integer("num_dense_layers", 2, 0);
  decoder.names.choiceBias = "expert_bias";
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 1792),
             [first](int64_t layer) { return layer < first; });
}

} // namespace ztc::huggingface
