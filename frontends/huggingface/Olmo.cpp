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

} // namespace ztc::huggingface
