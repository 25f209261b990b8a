// Llama 4's language model: chunks of keys in layers that rotate, temperature in those that do not, one expert beside a
// shared one.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Which layers see their chunk of the row alone.
static std::vector<bool> chunkedLayers(Config &config, const Decoder &decoder) {
  return layersOfType(config, decoder, "layer_types", "chunked_attention", "full_attention",
                      [&](int64_t layer) { return decoder.layers[layer].rope >= 0; });
}

/// Layers without rotation: every `no_rope_layer_interval`-th, or those that no_rope_layers has a 0 for.
static void readRotation(Config &config, Decoder &decoder) {
  decoder.ropes = {readRope(config, ropeContext(decoder, 500000))};
  decoder.ropes.front().isInterleaved = true;
  int64_t interval = config.integer("no_rope_layer_interval", 4);
  std::vector<int64_t> rotates = config.integers("no_rope_layers").value_or(std::vector<int64_t>());
  if (!rotates.empty() && rotates.size() < decoder.layers.size())
    config.fail("no_rope_layers has " + std::to_string(rotates.size()) + " entries for " +
                std::to_string(decoder.layers.size()) + " layers");
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    if (rotates.empty() ? (i + 1) % interval == 0 : i < rotates.size() && !rotates[i])
      decoder.layers[i].rope = -1;
}

/// A flag that the first configurations wrote as a number.
static bool flagOrNumber(Config &config, const char *key, bool otherwise) {
  nlohmann::json value = config.value(key);
  return value.is_number() ? value.get<double>() != 0 : config.flag(key, otherwise);
}

void fillLlama4(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 202048,
              .hidden = 5120,
              .width = 8192,
              .layers = 48,
              .heads = 40,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 131072,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false), hasHeadNorms = config.flag("use_qk_norm", true);
  setBiases(decoder, bias, bias);
  readRotation(config, decoder);
  std::vector<bool> chunked = chunkedLayers(config, decoder);
  std::optional<int64_t> chunk = config.optionalInteger("attention_chunk_size", 8192);
  bool isTuned = flagOrNumber(config, "attn_temperature_tuning", true);
  double beta = config.number("attn_scale", 0.1), from = config.number("floor_scale", 8192);
  if (from <= 0)
    config.fail(config.describe("floor_scale") + ", which is not above 0");
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.window = chunked[i] ? chunk.value_or(0) : 0;
    layer.windowIsChunk = true;
    if (layer.rope >= 0 && hasHeadNorms) {
      layer.attention.headNorms = HeadNorms::PerHead;
      layer.attention.headNorm = Norm{NormKind::RmsPlain, decoder.norm.epsilon};
      layer.attention.normsAfterRotation = true;
    } else if (layer.rope < 0 && isTuned) {
      layer.attention.queryScaleBeta = beta;
      layer.attention.queryScaleFrom = from;
      layer.attention.queryScaleShift = 1;
    }
  }

  Experts experts{.router = Experts::Router::TopThenSigmoid};
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 16);
  experts.perToken = config.integer("num_experts_per_tok", 1);
  experts.sharesScaleInputs = true;
  int64_t width = decoder.layers.front().feedForward.width, step = config.integer("interleave_moe_layer_step", 1),
          denseWidth = config.integer("intermediate_size_mlp", 16384);
  experts.sharedWidth = width;
  std::optional<std::vector<int64_t>> list = config.integers("moe_layers");
  auto isDense = [&](int64_t layer) {
    return list ? std::find(list->begin(), list->end(), layer) == list->end() : (layer + 1) % step != 0;
  };
  readRouterLoss(config, decoder);
  readRouterNoise(config, decoder);
  for (Layer &layer : decoder.layers)
    layer.feedForward.width = denseWidth;
  setExperts(config, decoder, experts, width, isDense);
  BlockNames &names = decoder.names;
  names.feedForward = "feed_forward";
  names.router = "router";
  names.sharedExpert = "shared_expert";
  names.expertsAreStacked = names.expertsAreTransposed = true;
}

} // namespace ztc::huggingface
