// OLMo 2 and 3: norms of results, not of inputs, and of all heads of queries and keys at once; windows in 3.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

static Defaults secondDefaults() {
  Defaults defaults{.vocabulary = 50304, .epsilon = 1e-5};
  defaults.padding = 1;
  return defaults;
}

static void fillBoth(Config &config, Decoder &decoder, const Defaults &defaults = secondDefaults()) {
  readCommon(config, decoder, defaults);
  decoder.names.attentionNorm = decoder.names.feedForwardNorm = "";
  decoder.names.afterAttentionNorm = "post_attention_layernorm";
  decoder.names.afterFeedForwardNorm = "post_feedforward_layernorm";
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::Whole;
}

void fillOlmo2(Config &config, Decoder &decoder) {
  fillBoth(config, decoder);
  if (!decoder.layers.empty())
    decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillOlmo3(Config &config, Decoder &decoder) {
  fillBoth(config, decoder);
  if (decoder.layers.empty())
    return;
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  std::vector<bool> sliding =
      slidingLayers(config, decoder, [](int64_t layer, int64_t) { return (layer + 1) % 4 != 0; }, 0);
  setWindows(decoder, sliding, window);
  decoder.ropes = readRopesPerLayerType(config, decoder, 500000, nullptr, 500000);
}

static void readExperts(Config &config, Decoder &decoder, int64_t count, int64_t perToken) {
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), count);
  experts.perToken = config.integer("num_experts_per_tok", perToken);
  experts.normalised = config.flag("norm_topk_prob", false);
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
}

/// Norms of inputs again, and experts in every layer.
void fillOlmoE(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 50304,
                    .hidden = 2048,
                    .width = 2048,
                    .layers = 16,
                    .heads = 16,
                    .positions = 4096,
                    .epsilon = 1e-5};
  defaults.padding = 1;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  double clip = config.optionalNumber("clip_qkv", std::nullopt).value_or(0);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::Whole;
    layer.attention.clip = clip;
  }
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  readExperts(config, decoder, 64, 8);
}

/// OLMo 2 with experts in every layer.
void fillFlexOlmo(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 100352, .positions = 4096};
  defaults.padding = 100277;
  fillBoth(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.ropes = {readRope(config, ropeContext(decoder, 500000))};
  readExperts(config, decoder, 7, 5);
}

/// A base of null: positions do not turn anything.
static bool hasTheta(Config &config) {
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (std::optional<Config> parameters = config.child(key); parameters && parameters->has("rope_theta"))
      return !parameters->isNull("rope_theta");
  return !config.isNull("rope_theta");
}

/// The gated delta rule in three layers of four, after norms of inputs; attention as in the second, often without
/// positions.
void fillOlmoHybrid(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 100352, .hidden = 3840, .heads = 30, .positions = 65536};
  defaults.padding = 100277;
  fillBoth(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  const int64_t last = int64_t(decoder.layers.size()) - 1, heads = decoder.layers.front().attention.heads;
  const std::vector<bool> isLinear =
      layersOfType(config, decoder, "layer_types", "linear_attention", "full_attention",
                   [last](int64_t layer) { return layer % 4 != 3 && !(last < 3 && layer == last); });
  DeltaNet delta{.projections = DeltaNet::Projections::Apart};
  delta.keyHeads = config.optionalInteger("linear_num_key_heads", heads).value_or(heads);
  delta.valueHeads = config.optionalInteger("linear_num_value_heads", heads).value_or(heads);
  const int64_t width = int64_t(0.75 * double(decoder.hidden) / double(delta.keyHeads));
  delta.keyWidth = config.optionalInteger("linear_key_head_dim", width).value_or(width);
  delta.valueWidth = config.optionalInteger("linear_value_head_dim", 2 * delta.keyWidth).value_or(2 * delta.keyWidth);
  delta.taps = config.integer("linear_conv_kernel_dim", 4);
  delta.betaReachesTwo = config.flag("linear_allow_neg_eigval", true);
  delta.activation = decoder.layers.front().feedForward.activation;
  delta.epsilon = 1e-5; // not the configuration's
  checkDeltaNet(config, delta);
  decoder.fresh = {{"A_log",
                    FreshValues::Kind::LogUniform,
                    {config.number("linear_a_log_min", 0), config.number("linear_a_log_max", 16)}},
                   freshSteps(config, {"linear_dt_min", "linear_dt_max", "linear_dt_init_floor"})};
  const bool rotates = hasTheta(config);
  if (rotates)
    decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  else
    config.harmless({"rope_parameters", "rope_scaling", "rope_theta"});
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.rope = rotates ? 0 : -1;
    if (!isLinear[i])
      continue;
    layer.deltaNet = delta;
    layer.norms = BlockNorms();
    layer.norms->attentionNorm = "attention_layer_norm";
    layer.norms->feedForwardNorm = "feedforward_layer_norm";
  }
  // transformers renames on the way in, and back on the way out in all layers.
  decoder.renamed = {{".attention_layer_norm.", ".input_layernorm."},
                     {".feedforward_layer_norm.", ".post_attention_layernorm."},
                     {".post_attention_layernorm.", ".feedforward_layer_norm."}};
}

} // namespace ztc::huggingface
