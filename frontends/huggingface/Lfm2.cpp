// LFM2 and 3: gated short convolutions in most layers, attention with norms per head in the others; experts in LFM2's
// mixture; windows, gates of attention and norms of results in LFM3.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// "conv" or "full_attention" for each layer.
static std::vector<bool> convolvingLayers(Config &config, const Decoder &decoder,
                                          const std::function<bool(int64_t)> &isConvolution) {
  return layersOfType(config, decoder, "layer_types", "conv", "full_attention", isConvolution);
}

static void setConvolutions(Config &config, Decoder &decoder, const std::vector<bool> &convolves, int64_t taps = 3) {
  ShortConvolution convolution;
  convolution.taps = config.integer("conv_L_cache", taps);
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
  defaults.positions = 128000;
  defaults.epsilon = 1e-5;
  defaults.epsilonKey = "norm_eps";
  defaults.isTied = true;
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.finalNorm = "embedding_norm";
  BlockNames &names = decoder.names;
  names.attentionNorm = "operator_norm";
  names.feedForwardNorm = "ffn_norm";
  names.feedForward = "feed_forward";
  names.gate = names.expertGate = "w1";
  names.up = names.expertUp = "w3";
  names.down = names.expertDown = "w2";
}

static void setLfm2Attention(Config &config, Decoder &decoder) {
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
  BlockNames &names = decoder.names;
  names.output = "out_proj";
  names.queryNorm = "q_layernorm";
  names.keyNorm = "k_layernorm";
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
  readLfm2(config, decoder, {.vocabulary = 65536, .hidden = 2560, .width = 12288, .keyHeads = 8});
  if (decoder.layers.empty())
    return;
  setLfm2Attention(config, decoder);
  const int64_t width = adjustedWidth(config, decoder.layers.front().feedForward.width);
  for (Layer &layer : decoder.layers)
    layer.feedForward.width = width;
  const std::optional<std::vector<int64_t>> attends = config.integers("full_attn_idxs");
  setConvolutions(config, decoder, convolvingLayers(config, decoder, [&](int64_t layer) {
                    return attends && std::find(attends->begin(), attends->end(), layer) == attends->end();
                  }));
}

/// DeepSeek-V3's choice of experts, without groups, after the first layers.
void fillLfm2Moe(Config &config, Decoder &decoder) {
  readLfm2(config, decoder, {.vocabulary = 65536, .hidden = 2048, .width = 7168, .keyHeads = 8});
  if (decoder.layers.empty())
    return;
  setLfm2Attention(config, decoder);
  if (config.texts("layer_types").empty())
    config.fail(config.describe("layer_types") + "; this model type needs one for each layer");
  setConvolutions(config, decoder, convolvingLayers(config, decoder, [](int64_t) { return false; }));
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

/// Three kinds of layers; the window of one of them is a layer type too.
void fillLfm3(Config &config, Decoder &decoder) {
  readAliases(config, {{"rms_norm_eps", "norm_eps"}});
  Defaults defaults{
      .vocabulary = 128000, .hidden = 2048, .width = 7680, .layers = 24, .heads = 16, .keyHeads = 4, .headWidth = 128};
  if (!config.has("pad_token_id"))
    config.set("pad_token_id", 124893);
  readLfm2(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  const std::vector<std::string> types = config.texts("layer_types");
  std::vector<bool> convolves, slides;
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const std::string type = !types.empty()    ? i < types.size() ? types[i] : ""
                             : i % 4 == 2      ? "full_attention"
                             : i && i % 4 == 0 ? "sliding_attention"
                                               : "conv";
    convolves.push_back(type == "conv");
    slides.push_back(type == "sliding_attention");
    if (type != "conv" && type != "sliding_attention" && type != "full_attention")
      return config.fail("layer_types has '" + type + "' for layer " + std::to_string(i) +
                         "; ztc builds conv, sliding_attention and full_attention of this model type");
  }
  if (!types.empty() && types.size() != decoder.layers.size())
    return config.fail("layer_types has " + std::to_string(types.size()) + " entries for " +
                       std::to_string(decoder.layers.size()) + " layers");
  setConvolutions(config, decoder, convolves, 7);
  setNeededWindows(config, decoder, slides, config.optionalInteger("sliding_window", 256));
  const bool bias = config.flag("attention_bias", false), hasGate = config.flag("use_attention_gate", true);
  setBiases(decoder, bias, bias);
  if (!config.has("rope_parameters") || config.isNull("rope_parameters"))
    config.set("rope_parameters",
               {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                {"full_attention",
                 {{"rope_type", "proportional"}, {"rope_theta", 1000000.0}, {"partial_rotary_factor", 0.5}}}});
  decoder.ropes = readRopesPerLayerType(config, decoder, 1000000, nullptr, 1000000);
  BlockNames &names = decoder.names;
  decoder.renamed = {{".self_attn.gate_proj.", ".self_attn.g_proj."}};
  for (Layer &layer : decoder.layers)
    layer.attention.outputGate = hasGate ? OutputGate::SigmoidPerHead : OutputGate::None;
  if (config.flag("use_sandwich_norm", true)) {
    names.afterAttentionNorm = "post_operator_norm";
    names.afterFeedForwardNorm = "post_ffn_norm";
  }
}

} // namespace ztc::huggingface
