// Families of Llama's shape with LayerNorm: StableLM, StarCoder2, Nemotron, Jais 2, OLMo, Phi, Cohere.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

static RopeContext partialContext(const Decoder &decoder, double theta, double part) {
  RopeContext context = ropeContext(decoder, theta);
  context.partialFactor = part;
  return context;
}

void fillStableLm(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 50304,
              .hidden = 2560,
              .width = 6912,
              .keyHeads = 32,
              .positions = 4096,
              .epsilon = 1e-5,
              .epsilonKey = "layer_norm_eps"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  bool bias = config.flag("use_qkv_bias", false), hasHeadNorms = config.flag("qk_layernorm", false);
  setBiases(decoder, bias, false);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = hasHeadNorms ? HeadNorms::EachHead : HeadNorms::None;
  decoder.names.queryNorm = "q_layernorm";
  decoder.names.keyNorm = "k_layernorm";
  if (config.flag("use_parallel_residual", false))
    makeParallel(decoder);
  decoder.ropes = {readRope(config, partialContext(decoder, 10000, 0.25))};
}

void fillStarCoder2(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 49152,
                    .hidden = 3072,
                    .width = 12288,
                    .layers = 30,
                    .heads = 24,
                    .keyHeads = 2,
                    .positions = 4096,
                    .epsilon = 1e-5,
                    .epsilonKey = "norm_epsilon",
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  readCommon(config, decoder, defaults);
  config.harmless({"norm_type", "mlp_type"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  bool bias = config.flag("use_bias", true);
  int64_t window = config.optionalInteger("sliding_window", std::nullopt).value_or(0);
  setBiases(decoder, bias, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.feedForward.isGated = false;
    layer.window = window;
  }
  decoder.names.up = "c_fc";
  decoder.names.down = "c_proj";
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillNemotron(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 256000,
              .hidden = 6144,
              .width = 24576,
              .heads = 48,
              .headWidth = 0,
              .positions = 4096,
              .epsilon = 1e-5,
              .epsilonKey = "norm_eps",
              .activation = "relu2"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::LayerPlusOne;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  for (Layer &layer : decoder.layers)
    layer.feedForward.isGated = false;
  decoder.ropes = {readRope(config, partialContext(decoder, 10000, 0.5))};
}

void fillJais2(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 150272,
              .hidden = 3328,
              .width = 26624,
              .heads = 26,
              .positions = 8192,
              .epsilon = 1e-5,
              .epsilonKey = "layer_norm_eps",
              .activation = "relu2"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  bool bias = config.flag("attention_bias", true);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", true));
  for (Layer &layer : decoder.layers)
    layer.feedForward.isGated = false;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillOlmo(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 50304};
  defaults.padding = 1;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm = {NormKind::LayerPlain, 1e-5};
  bool bias = config.flag("attention_bias", false);
  double clip = config.optionalNumber("clip_qkv", std::nullopt).value_or(0);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers)
    layer.attention.clip = clip;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillPhi(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 51200,
              .hidden = 2048,
              .width = 8192,
              .layers = 24,
              .epsilon = 1e-5,
              .epsilonKey = "layer_norm_eps",
              .activation = "gelu_new"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  bool hasHeadNorms = config.flag("qk_layernorm", false);
  setBiases(decoder, true, true, true);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = hasHeadNorms ? HeadNorms::PerHead : HeadNorms::None;
    layer.feedForward.isGated = false;
  }
  makeParallel(decoder);
  decoder.headBias = true;
  decoder.finalNorm = "final_layernorm";
  BlockNames &names = decoder.names;
  names.queryNorm = "q_layernorm";
  names.keyNorm = "k_layernorm";
  names.output = "dense";
  names.up = "fc1";
  names.down = "fc2";
  decoder.ropes = {readRope(config, partialContext(decoder, 10000, 0.5))};
}

void readCohere(Config &config, Decoder &decoder, int64_t headWidth) {
  Defaults defaults{.vocabulary = 256000,
                    .hidden = 8192,
                    .width = 22528,
                    .layers = 40,
                    .heads = 64,
                    .headWidth = headWidth,
                    .positions = 8192,
                    .epsilon = 1e-5,
                    .epsilonKey = "layer_norm_eps"};
  defaults.isTied = true;
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::LayerNoBias;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  decoder.logitScale = config.number("logit_scale", 0.0625);
  makeParallel(decoder);
}

void fillCohere(Config &config, Decoder &decoder) {
  readCohere(config, decoder);
  if (decoder.layers.empty())
    return;
  if (config.flag("use_qk_norm", false))
    for (Layer &layer : decoder.layers)
      layer.attention.headNorms = HeadNorms::OwnPerHead;
  decoder.ropes = {readRope(config, ropeContext(decoder, 500000))};
  decoder.ropes.front().isInterleaved = true;
}

/// Windows in three layers of four, and positions in those only.
void fillCohere2(Config &config, Decoder &decoder) {
  readCohere(config, decoder);
  if (decoder.layers.empty())
    return;
  config.harmless({"_sliding_window_pattern", "order_of_interleaved_layers", "position_embedding_type", "rotary_pct",
                   "use_embedding_sharing", "use_gated_activation", "use_parallel_block", "use_parallel_embedding",
                   "use_qk_norm", "layer_switch"});
  int64_t pattern = config.integer("sliding_window_pattern", 4);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  std::vector<bool> sliding = slidingLayers(config, decoder, allButEvery, pattern);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.ropes.front().isInterleaved = true;
  setWindows(decoder, sliding, window);
  for (Layer &layer : decoder.layers)
    layer.rope = layer.isSliding && window ? 0 : -1;
}

/// Cohere 2 with a rotary embedding for each type of layer, or none; of text alone its parts are alike.
void fillCohereCompass(Config &config, Decoder &decoder) {
  if (config.isNull("logit_scale") || !config.has("logit_scale"))
    config.set("logit_scale", 1);
  readCohere(config, decoder);
  if (decoder.layers.empty())
    return;
  config.harmless({"pooling", "_sliding_window_pattern", "sliding_window_pattern"});
  std::vector<bool> sliding = slidingLayers(config, decoder, [](int64_t, int64_t) { return false; }, 0);
  setWindows(decoder, sliding, config.optionalInteger("sliding_window", 4096));
  std::optional<Config> ropes = config.child("rope_parameters");
  const char *const types[] = {"full_attention", "sliding_attention"};
  for (int i = 0; i < 2; ++i) {
    std::optional<Config> own = ropes ? ropes->child(types[i]) : std::nullopt;
    const bool isThere = own || (ropes && !ropes->has("full_attention") && !ropes->has("sliding_attention"));
    RopeContext context = ropeContext(decoder, 10000);
    decoder.ropes.push_back(ropeOf(config, own ? own : ropes, context, bool(own)));
    for (Layer &layer : decoder.layers)
      if (layer.isSliding == bool(i))
        layer.rope = isThere ? i : -1;
  }
  if (ropes)
    config.adopt(*ropes);
}

} // namespace ztc::huggingface
