// Gemma 1 to 3: norms that multiply by 1 + w, scaled embeddings, norms around each half of a block, soft-caps.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

static void fillAll(Config &config, Decoder &decoder, const Defaults &defaults) {
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::RmsPlusOne;
  decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  config.require("use_bidirectional_attention", {false, nullptr});
}

void setNormsAroundHalves(Decoder &decoder) {
  BlockNames &names = decoder.names;
  names.afterAttentionNorm = "post_attention_layernorm";
  names.feedForwardNorm = "pre_feedforward_layernorm";
  names.afterFeedForwardNorm = "post_feedforward_layernorm";
}

/// Gemma 2 and 3: four norms, windows, a scale of the scores of its own.
static void fillLater(Config &config, Decoder &decoder, bool (*isSliding)(int64_t, int64_t), int64_t interval) {
  setNormsAroundHalves(decoder);
  double scalar = config.number("query_pre_attn_scalar", 256);
  if (scalar <= 0)
    config.fail(config.describe("query_pre_attn_scalar") + ", which is not above 0");
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  setWindows(decoder, slidingLayers(config, decoder, isSliding, interval), window);
  for (Layer &layer : decoder.layers)
    layer.attention.scale = 1 / std::sqrt(scalar);
}

void fillGemma(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 256000,
                    .hidden = 3072,
                    .width = 24576,
                    .layers = 28,
                    .heads = 16,
                    .keyHeads = 16,
                    .headWidth = 256,
                    .positions = 8192,
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  defaults.padding = 0;
  // "gelu" of the first releases meant the approximation by tanh, and hidden_activation goes first where it is there.
  bool hasNewKey = config.has("hidden_activation") && !config.isNull("hidden_activation");
  config.harmless({"hidden_act"});
  if (hasNewKey)
    defaults.activationKey = "hidden_activation";
  fillAll(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.activation == Activation::Gelu)
      layer.feedForward.activation = Activation::GeluTanh;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

/// Of Gemma 2 and 3.
static Defaults laterDefaults(int64_t vocabulary, int64_t positions) {
  Defaults defaults{.vocabulary = vocabulary,
                    .hidden = 2304,
                    .width = 9216,
                    .layers = 26,
                    .heads = 8,
                    .keyHeads = 4,
                    .headWidth = 256,
                    .positions = positions,
                    .activationKey = "hidden_activation",
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  defaults.padding = 0;
  return defaults;
}

void fillGemma2(Config &config, Decoder &decoder) {
  Defaults defaults = laterDefaults(256000, 8192);
  config.harmless({"hidden_act", "cache_implementation", "sliding_window_size"});
  fillAll(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  fillLater(config, decoder, [](int64_t layer, int64_t) { return layer % 2 == 0; }, 0);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  std::optional<double> cap = softCap(config, "attn_logit_softcapping", 50.0);
  for (Layer &layer : decoder.layers)
    layer.attention.softCap = cap;
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", 30.0);
}

/// Gemma 2 without the norms of results.
void fillVaultGemma(Config &config, Decoder &decoder) {
  fillGemma2(config, decoder);
  decoder.names.afterAttentionNorm = decoder.names.afterFeedForwardNorm = "";
}

void fillGemma3(Config &config, Decoder &decoder) {
  Defaults defaults = laterDefaults(262208, 131072);
  // transformers reads attn_logit_softcapping and never uses it.
  config.harmless({"hidden_act", "cache_implementation", "attn_logit_softcapping", "_sliding_window_pattern"});
  fillAll(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  int64_t pattern = config.integer("sliding_window_pattern", 6);
  fillLater(config, decoder, allButEvery, pattern);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  decoder.ropes = readRopesPerLayerType(config, decoder, 1000000, "rope_local_base_freq", 10000);
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", std::nullopt);
}

} // namespace ztc::huggingface
